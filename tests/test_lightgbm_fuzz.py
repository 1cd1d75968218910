"""A short run of the fuzzer of text models; ``tools/fuzz_lightgbm.py`` makes long ones."""

import importlib.util
from pathlib import Path

import pytest
from lightgbm_files import FOLDER, model_text

TOOL = Path(__file__).parents[1] / "tools" / "fuzz_lightgbm.py"
MUTANTS = 200


@pytest.fixture(scope="module")
def fuzzer():
    spec = importlib.util.spec_from_file_location("fuzz_lightgbm", TOOL)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_mutants_are_refused_or_predict(fuzzer, seed):
    n_read, faults = fuzzer.run(fuzzer.read_models(FOLDER), MUTANTS, seed * MUTANTS)
    assert faults == []
    assert 0.05 * MUTANTS < n_read < 0.6 * MUTANTS


def test_the_same_seed_makes_the_same_mutant(fuzzer):
    models = fuzzer.read_models(FOLDER)
    assert [fuzzer.mutant(models, seed) for seed in range(5)] == [fuzzer.mutant(models, seed) for seed in range(5)]


@pytest.mark.parametrize(
    ("failure", "message"),
    [
        (ValueError("no number"), "names no line"),
        (ValueError("Line 99: too far"), "a line that is not there"),
        (KeyError("threshold"), "KeyError"),
        (MemoryError(), "MemoryError"),
    ],
)
def test_failures_of_the_reader_are_found(fuzzer, monkeypatch, failure, message):
    def fail(text):
        raise failure

    monkeypatch.setattr(fuzzer, "loads", fail)
    n_read, faults = fuzzer.run({"model": model_text({})}, 2, 0)
    assert n_read == 0
    assert len(faults) == 2
    assert message in faults[0][1]


def test_time_and_memory_are_limited(fuzzer, monkeypatch):
    models = {"model": model_text({})}
    monkeypatch.setattr(fuzzer, "loads", lambda text: bytearray(len(text) * fuzzer.BYTES_PER_CHARACTER + 1))
    monkeypatch.setattr(fuzzer, "check", lambda text: bool(fuzzer.loads(text)))
    monkeypatch.setattr(fuzzer, "BYTES", 0)
    assert "bytes for" in fuzzer.run(models, 1, 0)[1][0][1]
    monkeypatch.setattr(fuzzer, "SECONDS", 0.0)
    assert "seconds" in fuzzer.run(models, 1, 0)[1][0][1]
