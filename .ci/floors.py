"""Print the floors that pyproject.toml states, as constraints for pip."""

import re
import tomllib

with open("pyproject.toml", "rb") as file:
    project = tomllib.load(file)["project"]
extras = project["optional-dependencies"]
for requirement in [*project["dependencies"], *extras["dask"], *extras["plot"], *extras["test"]]:
    if ">=" in requirement:
        print(re.sub(r"\[.*\]", "", requirement).replace(">=", "=="))  # constraints name no extras
