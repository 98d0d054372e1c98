"""Changes of a dict, and with it of the environment, are noticed."""

import os

import pytest

from flydsl import config, dict_version
from flydsl.dict_version import version_of


def test_every_change_counts_and_no_reading_does():
    mapping = {"a": 1}
    tag = version_of(mapping)
    if tag is None:
        pytest.skip("this Python counts no changes of dicts")
    seen = [tag.value]
    for change in (
        lambda: mapping.update(b=2),
        lambda: mapping.__setitem__("b", 3),
        lambda: mapping.pop("a"),
        lambda: mapping.popitem(),
        lambda: mapping.setdefault("c", 4),
        lambda: mapping.__ior__({"d": 5}),
        mapping.clear,
    ):
        sorted(mapping.items())
        assert tag.value == seen[-1]
        change()
        assert tag.value not in seen
        seen.append(tag.value)


@pytest.mark.parametrize("counted", [True, False])
def test_the_version_of_the_environment_follows_variables_that_count(monkeypatch, counted):
    if not counted:
        monkeypatch.setattr(dict_version, "_counts", lambda: False)
    monkeypatch.setattr(config, "_tag", None)
    monkeypatch.delenv("FLYDSL_COMPILE_OPT_LEVEL", raising=False)
    versions = [config.environment_version()]
    assert config.environment_version() == versions[0]
    monkeypatch.setenv("NOTHING_OF_OURS", "1")
    assert config.environment_version() == versions[0]
    os.environ["FLYDSL_COMPILE_OPT_LEVEL"] = "1"
    versions.append(config.environment_version())
    os.environ["FLYDSL_COMPILE_OPT_LEVEL"] = "2"
    versions.append(config.environment_version())
    os.environ.pop("FLYDSL_COMPILE_OPT_LEVEL")
    versions.append(config.environment_version())
    assert len(set(versions)) == 4
    assert config.environment_version() == versions[-1]
    config.settings_changed()
    assert config.environment_version() not in versions
