"""Compiled modules and their flags; all metadata lives in pyproject.toml.

Environment switches: SKBOOST_DEBUG (bounds checks, -O0), SKBOOST_SANITIZE=address,undefined, SKBOOST_NO_OPENMP,
SKBOOST_ONLY=binning,predict (build a few modules), SKBOOST_BUILD_JOBS.
"""

import os
import sys
import tempfile
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

DEBUG = bool(os.environ.get("SKBOOST_DEBUG"))
SANITIZE = os.environ.get("SKBOOST_SANITIZE", "")
ENGINE = Path("skboost/_engine")
SHARED = "skboost._engine._cyutility"

DIRECTIVES = {
    "language_level": 3,
    "boundscheck": DEBUG,
    "initializedcheck": DEBUG,
    "nonecheck": DEBUG,
    "overflowcheck": DEBUG,
    "wraparound": False,
    "cdivision": True,
    "embedsignature": True,
    "freethreading_compatible": True,
}

# Loops that vectorise only without signed zeros and NaN; modules that meet missing values are not among them.
VECTOR_EXTENSIONS = {"losses", "langevin", "split", "survival", "ranking"}
VECTOR_FLAGS = ["-fno-trapping-math", "-fno-signed-zeros", "-ffinite-math-only"]


class BuildExt(build_ext):
    """Choose flags when the compiler is known, and build without OpenMP where it is absent."""

    def build_extensions(self):
        if self.compiler.compiler_type == "msvc":
            raise SystemExit("skboost builds with GCC or Clang; on Windows use clang or MinGW instead of MSVC.")
        flags = self.base_flags()
        compile_omp, link_omp = ([], []) if os.environ.get("SKBOOST_NO_OPENMP") else self.openmp()
        for ext in self.extensions:
            ext.extra_compile_args += flags + compile_omp
            ext.extra_link_args += link_omp
            if SANITIZE:
                ext.extra_link_args.append(f"-fsanitize={SANITIZE}")
            if ext.name.rsplit(".", 1)[-1] in VECTOR_EXTENSIONS:
                ext.extra_compile_args += VECTOR_FLAGS
        jobs = os.environ.get("SKBOOST_BUILD_JOBS")
        self.parallel = int(jobs) if jobs else (self.parallel or os.cpu_count())
        super().build_extensions()

    @staticmethod
    def base_flags():
        flags = ["-O0" if DEBUG else "-O3", "-std=gnu11", "-ffp-contract=off", "-fno-math-errno", "-fvisibility=hidden"]
        if SANITIZE:
            flags += [f"-fsanitize={SANITIZE}", "-fno-omit-frame-pointer", "-g1"]
            if "undefined" in SANITIZE:
                flags.append("-fno-sanitize-recover=undefined")
        else:
            flags.append("-g0")
        return flags

    def openmp(self):
        """Return (compile flags, link flags), both empty when a small OpenMP program does not build."""
        flag = ["-Xpreprocessor", "-fopenmp"] if sys.platform == "darwin" else ["-fopenmp"]
        link = ["-lomp"] if sys.platform == "darwin" else ["-fopenmp"]
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder, "probe.c")
            source.write_text("#include <omp.h>\nint main(void) { return omp_get_max_threads() < 1; }\n")
            try:
                objects = self.compiler.compile([str(source)], output_dir=folder, extra_postargs=flag)
                self.compiler.link_executable(objects, str(Path(folder, "probe")), extra_postargs=link)
            except Exception as error:
                print(f"building without OpenMP: {error}", file=sys.stderr)
                return [], []
        return flag, link


def extensions():
    headers = [str(path) for path in sorted((ENGINE / "src").glob("*.h"))]
    only = os.environ.get("SKBOOST_ONLY")
    wanted = set(only.split(",")) if only else None
    found = [
        Extension(f"skboost._engine.{path.stem}", [str(path)], depends=headers, include_dirs=[str(ENGINE / "src")])
        for path in sorted(ENGINE.glob("*.pyx"))
        if wanted is None or path.stem in wanted
    ]
    found.append(Extension(SHARED, [f"{ENGINE}/_cyutility.c"]))
    return found


setup(
    ext_modules=cythonize(
        extensions(),
        compiler_directives=DIRECTIVES,
        build_dir="build/cython",
        shared_utility_qualified_name=SHARED,
        nthreads=0,
    ),
    cmdclass={"build_ext": BuildExt},
)
