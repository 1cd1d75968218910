"""Print the requirements of an extra of pyproject.toml, one a line, so that tools need not install the package.

python tools/requirements.py lint
"""

import re
import sys
import tomllib
from pathlib import Path


def requirements(extra):
    """Return the requirements of ``extra``, those of the extras it names included."""
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    found = []
    for requirement in project["optional-dependencies"][extra]:
        own = re.fullmatch(re.escape(project["name"]) + r"\[([\w,]+)\]", requirement)
        found += [inner for name in own[1].split(",") for inner in requirements(name)] if own else [requirement]
    return found


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(*requirements(name), sep="\n")
