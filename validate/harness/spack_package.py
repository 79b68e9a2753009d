"""What can be said of the Spack package without Spack: it compiles, its source is this checkout, and every CMake variable that it
sets is one that the build reads.

usage: spack_package.py SOURCE
"""

import ast
import os
import sys
from pathlib import Path


def main():
    """Exit code 0 where all of that is so, else a line for each thing that is not."""
    source = Path(sys.argv[1]).resolve()
    path = source / "jobscripts/harness/spack_repo/pipeleaf/packages/pipeleaf/package.py"
    tree = ast.parse(path.read_text(), path)
    wrong = []
    package = next(node for node in tree.body if isinstance(node, ast.ClassDef))
    git = next(node.value for node in package.body if isinstance(node, ast.Assign) and node.targets[0].id == "git")
    found = eval(compile(ast.Expression(git), path, "eval"), {"os": os, "__file__": str(path)})  # noqa: S307: our own file
    if found != f"file://{source}":
        wrong.append(f"the package's source is {found}, not this checkout, file://{source}")
    defined = [
        node.args[0].value
        for node in ast.walk(package)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "define"
    ]
    build = "".join(file.read_text() for file in (source / "CMakeLists.txt", source / "src/device/cuda/toolkit.cmake"))
    wrong += [f"the package sets {name}, which the build does not read" for name in defined if name not in build]
    for line in wrong:
        print(line)
    print(f"{len(defined)} variables checked, {len(wrong)} things wrong")
    return 0 if len(defined) >= 4 and not wrong else 1


if __name__ == "__main__":
    sys.exit(main())
