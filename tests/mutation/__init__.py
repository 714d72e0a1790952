"""Which small mistakes do the tests not notice? A development tool, not part of the checks of a change.

A seeded random sample of single mutations (an operator, a constant, a sign, a dropped term, swapped
arguments) of the numerical rooms. Each is run, in a copy of the tree, against the quickest tests that call
the mutated function until the first failure, and what survives against two minutes more of such tests:

    python -m tests.mutation --number 300 --seed 0 --jobs 2 --log ../mutants.jsonl --report ../mutants.md

All mutants of one function against the tests of one file, in seconds, while these are written:

    python -m tests.mutation --paths skspectral/linalg/rows.py --functions scale --tests parts_of_linalg

With the same --log a run that was stopped goes on where it was; with --again survivors are judged once more,
against tests written since. Tests marked as slow are left out unless --slow is given. Survivors that cannot
change a result are listed, with the reason, in `tests/mutants_that_change_nothing.md`. Only the standard
library is used, on a POSIX system.

The tests are run once without a mutation, to know that they pass, how long they take and what they call.

`operators` knows what can be mutated, `sample` draws, `choice` knows which tests to run, `workshop` runs them
with `plugin`, `forks` and `calls`, `report` remembers and tells.
"""
