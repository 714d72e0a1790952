"""A hundred fuzzed fits, and that the harness notices what it looks for."""

import time

import numpy as np
import pytest
from fuzz.__main__ import main
from fuzz.checks import Broken, check
from fuzz.dense import log_evidence
from fuzz.judge import TooLong, Verdict, _within, draw, judge
from fuzz.runs import judge_number
from problems import smooth
from reference import reml

from skspectral import SpectralGPRegressor, SpectralKernelRidge


@pytest.mark.slow
@pytest.mark.parametrize("decade", range(10))
def test_fuzzed_fits_keep_their_promises(decade):
    verdicts = {number: judge_number(0, number, 10.0) for number in range(10 * decade, 10 * decade + 10)}
    assert not {number: v.words for number, v in verdicts.items() if v.kind == "failed"}


def test_the_same_seed_draws_the_same_case():
    (one, first), (two, second) = draw(5, 17), draw(5, 17)
    assert repr(one) == repr(two)
    assert np.array_equal(first.X, second.X)
    assert np.array_equal(first.y, second.y)
    assert repr(draw(5, 18)[0]) != repr(one)


def test_the_dense_evidence_is_the_restricted_likelihood():
    X, y = smooth(n=12)
    K, weight = np.exp(-((X[:, None] - X) ** 2).sum(-1)), np.linspace(0.5, 2.0, 12)
    value, tolerance = log_evidence(K, y, 0.1, 0.2, weight, True)
    assert value == pytest.approx(reml(K, y, np.ones((12, 1)), 0.2, 2.0, weight), abs=1e-10)
    assert tolerance < 1e-6


def test_the_dense_evidence_of_a_singular_matrix_tells_nothing():
    K = np.diag([-1.0 + 1e-9, 1e8])
    assert log_evidence(K, np.ones(2), 1.0, 1.0, None, False)[1] == np.inf
    assert log_evidence(np.diag([-1.0 + 1e-4, 1e8]), np.ones(2), 1.0, 1.0, None, False)[1] < np.inf


@pytest.mark.parametrize(
    ("where", "lie", "words"),
    [
        ("predict", lambda f: lambda self, X, **k: f(self, X, **k) * np.nan, "not finite"),
        ("fit", None, "log evidence"),
        ("__getstate__", lambda f: lambda self: f(self) | {"_fitted": None}, "NoneType"),
    ],
)
def test_a_broken_promise_is_noticed(monkeypatch, where, lie, words):
    def wrong_evidence(fit):
        def fitted(self, *args):
            model = fit(self, *args)
            model.evidence_bounds_ = tuple(bound + 1e-3 for bound in model.evidence_bounds_)
            return model

        return fitted

    make = wrong_evidence if lie is None else lie
    monkeypatch.setattr(SpectralKernelRidge, where, make(getattr(SpectralKernelRidge, where)))
    _, sample = draw(0, 3)
    X, y = smooth(n=20)
    sample = type(sample)(X, y, None, X[:3] + 0.1)
    verdict = judge(SpectralKernelRidge(), sample, np.random.default_rng(0), 10.0)
    assert verdict.kind == "failed"
    assert words in verdict.words


def test_a_refusal_is_told_from_a_failure():
    _, sample = draw(0, 3)
    X, y = smooth(n=20)
    sample = type(sample)(X, y, None, X[:3])
    assert judge(SpectralKernelRidge(rank=21), sample, np.random.default_rng(0), 10.0).kind == "refused"
    assert judge(SpectralGPRegressor(), sample, np.random.default_rng(0), 10.0) == Verdict("fine")
    assert judge(SpectralGPRegressor(), sample, np.random.default_rng(0), 1e-4).words.startswith("TooLong")


def test_what_never_ends_is_stopped():
    def forever():
        with _within(0.05):
            while True:
                pass

    with pytest.raises(TooLong, match=r"0\.05 s"):
        forever()


def test_what_waits_for_ever_is_stopped():
    """It takes no time of the process, so that the clock decides."""

    def asleep():
        with _within(0.001):
            time.sleep(3600)

    with pytest.raises(TooLong, match=r"0\.001 s"):
        asleep()


def test_the_second_timer_spares_who_cleans_up():
    """Both have run out when cleaning ends, and only the first was heard of."""
    cleaned = False

    def stubborn():
        nonlocal cleaned
        with _within(0.001):
            try:
                while True:
                    pass
            finally:
                until = time.monotonic() + 0.2
                while time.monotonic() < until:
                    pass
                cleaned = True

    with pytest.raises(TooLong):
        stubborn()
    assert cleaned


def test_a_failure_prints_how_to_repeat_it(monkeypatch, capsys):
    def broken(*_):
        raise Broken("nothing holds")

    monkeypatch.setattr("fuzz.judge.check", broken)
    assert main(["--cases", "1", "--seed", "7", "--first", "11"]) == 1
    printed = capsys.readouterr().out
    assert "python -m tests.fuzz --seed 7 --first 11 --cases 1" in printed
    assert "nothing holds" in printed
    assert check is not broken


def test_processes_share_the_cases_and_count_together(capsys):
    """Refusals of two seeds, which the first nine and ten cases have, are those of both alone."""
    assert main(["--cases", "19", "--seed", "3", "--jobs", "2"]) == 0
    together = capsys.readouterr().out.splitlines()
    alone = [judge_number(seed, number, 10.0) for seed, n in ((3, 9), (4, 10)) for number in range(n)]
    refused = [verdict.words for verdict in alone if verdict.kind == "refused"]
    assert together[0] == f"{19 - len(refused)} fine, {len(refused)} refused, 0 failed"
    assert refused
    assert all(any(words in line for line in together) for words in refused)
    assert sum("--seed" in line for line in together) == 3  # the slowest, to be seen again
