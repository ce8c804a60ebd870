"""The settings: their names, defaults and checks."""

from __future__ import annotations

import pytest

from queuectl.config import SETTINGS, Settings, canonical, check, settings_from
from queuectl.errors import InvalidInput

GOOD = [
    ("max_retries", "0", 0),
    ("max_retries", " 9 ", 9),
    ("max_retries", "1000000", 1_000_000),
    ("backoff_base", "0", 0),
    ("backoff_base", "1.5", 1.5),
    ("backoff_base", "3", 3),
    ("backoff_base", "1000", 1000),
    ("max_backoff", "0", 0),
    ("max_backoff", "0.5", 0.5),
    ("max_backoff", "86400", 86400),
    ("timeout", "0", 0),
    ("timeout", "60", 60),
    ("priority", "1", 1),
    ("priority", "10", 10),
    ("aging", "off", "off"),
    ("aging", " 5   ENQUEUES ", "5 enqueues"),
    ("aging", "10m", "10m"),
    ("poll_interval", "0.001", 0.001),
    ("poll_interval", "1", 1),
    ("heartbeat_interval", "0.1", 0.1),
    ("heartbeat_interval", "3600", 3600),
    ("stop_grace", "0", 0),
    ("stop_grace", "2.5", 2.5),
    ("worker_count", "1", 1),
    ("worker_count", "1000", 1000),
    ("max_output", "0", 0),
    ("max_output", "100000000", 100_000_000),
    ("shell", "", ""),
    ("shell", " /bin/bash ", "/bin/bash"),
    ("keep_completed", " Forever ", "forever"),
    ("keep_completed", "30d", "30d"),
    ("keep_completed", "1D12h", "1d12h"),
    ("keep_completed", "0s", "0s"),
    ("max_log_bytes", "0", 0),
    ("max_log_bytes", "5000000000", 5_000_000_000),
    ("rate", "", ""),
    ("rate", " 10/S ", "10/s"),
    ("rate", "90 / Minutes", "90/m"),
    ("rate", "None", ""),
    ("rate", "1000/s", "1000/s"),
    ("log_format", "text", "text"),
    ("log_format", " JSON ", "json"),
]
BAD = [
    *(("max_retries", text) for text in ("abc", "", "-1", "1.5", "1000001", "nan", "0x10", "9" * 5000)),
    *(("backoff_base", text) for text in ("abc", "", "-0.1", "1001", "nan", "inf", "1e999")),
    *(("max_backoff", text) for text in ("abc", "-1", "nan", "inf", "3153600001", "10m")),
    *(("timeout", text) for text in ("abc", "-1", "0.5", "3153600001", "10m")),
    *(("priority", text) for text in ("abc", "0", "11", "99", "-1", "5.5", "high")),
    *(("aging", text) for text in ("", "abc", "0 enqueues", "-1 enqueues", "60", "0s")),
    *(("poll_interval", text) for text in ("abc", "0", "-1", "0.0009", "60.1", "nan")),
    *(("heartbeat_interval", text) for text in ("abc", "0", "0.09", "3601", "inf")),
    *(("stop_grace", text) for text in ("abc", "-1", "nan", "inf")),
    *(("worker_count", text) for text in ("abc", "0", "-1", "1001", "1.5")),
    *(("max_output", text) for text in ("abc", "-1", "100000001", "1.5", "1MB")),
    ("shell", "/bin/sh\0"),
    *(("keep_completed", text) for text in ("", "30", "never", "-1d", "1y", "101y")),
    *(("max_log_bytes", text) for text in ("abc", "-1", "1.5", "5GB", "forever")),
    *(("log_format", text) for text in ("", "xml", "1")),
    *(("rate", text) for text in ("abc", "10", "0/s", "-1/s", "1.5/s", "1001/s", "10/d", "/s", "10/s/s")),
]


def test_the_defaults_are_those_that_are_documented() -> None:
    found = Settings()._asdict()
    found.pop("poll_interval"), found.pop("heartbeat_interval")
    assert found == {
        "max_retries": 3,
        "backoff_base": 2,
        "max_backoff": 3600,
        "timeout": 0,
        "priority": 5,
        "aging": "1 enqueue",
        "stop_grace": 30,
        "worker_count": 1,
        "max_output": 1048576,
        "shell": "",
        "keep_completed": "forever",
        "max_log_bytes": 0,
        "rate": "",
        "log_format": "text",
    }


def test_every_setting_has_a_default_a_check_and_a_meaning_and_its_default_passes_the_check() -> None:
    assert tuple(SETTINGS) == Settings._fields
    for name, default in Settings()._asdict().items():
        assert SETTINGS[name].accepts and SETTINGS[name].meaning
        assert settings_from({name: check(name, str(default))}) == Settings()


@pytest.mark.parametrize(("name", "text", "value"), GOOD)
def test_a_good_value_is_read_back_as_it_was_meant(name: str, text: str, value: object) -> None:
    settings = settings_from({name: check(name, text)})
    assert getattr(settings, name) == value
    assert settings == Settings()._replace(**{name: value}), "and no other setting is touched"


@pytest.mark.parametrize(("name", "text"), BAD, ids=lambda value: repr(value)[:20])
def test_a_bad_value_is_refused_with_what_would_be_accepted(name: str, text: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        check(name, text)
    message = str(refused.value)
    assert message.startswith(f"{name} cannot be {text!r}"[:40])
    assert message.endswith(f". It takes {SETTINGS[name].accepts}")


@pytest.mark.parametrize("written", ["max_retries", "max-retries", "MAX-Retries", " max_retries "])
def test_dashes_and_underscores_both_name_a_setting(written: str) -> None:
    assert canonical(written) == "max_retries"


def test_an_unknown_setting_is_refused_with_the_nearest_or_with_where_to_look() -> None:
    with pytest.raises(InvalidInput, match=r"^No setting 'max-retrys'\. Did you mean max_retries\?$"):
        canonical("max-retrys")
    with pytest.raises(InvalidInput, match=r"^No setting 'colour'\. See: queuectl config list$"):
        canonical("colour")


def test_what_only_a_newer_version_knows_is_passed_over() -> None:
    assert settings_from({"colour": "red", "priority": "7"}) == Settings(priority=7)


def test_the_aging_rule_follows_the_setting() -> None:
    assert Settings().aging_rule.rank(5, since_tick=10, since_at=99) == 5
    assert Settings(aging="2s").aging_rule.rank(5, since_tick=10, since_at=99) == 99 - 5 * 2000
