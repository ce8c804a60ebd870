"""What commands print, and what the command line prints: in any encoding nothing fails, and little is lost."""

from __future__ import annotations

import io
import json
import os
import sys
from pathlib import Path

import pytest
from conftest import eventually
from processes import job, state

from queuectl.encoding import as_text, whole_letters
from queuectl.follow import CHUNK, Tail

from .conftest import Cli

OEM = "cp850"
EMOJI = "✓ Größe 😀"


# --- what a command printed ---


@pytest.mark.parametrize("code_page", [OEM, "cp932", "cp866", None])
def test_utf_8_is_utf_8_whatever_the_code_page(code_page: str | None) -> None:
    assert as_text(f"{EMOJI}\r\n".encode(), code_page) == f"{EMOJI}\r\n"


@pytest.mark.parametrize(
    ("code_page", "text"),
    [
        ("cp850", "Verzeichnis von C:\\Größe\r\n  Übung ß\r\n"),
        ("cp437", "├───dir\r\n│   └───café\r\n"),
        ("cp866", "работа сделана\r\nфайл не найден\r\n"),
        ("cp932", "ファイルが見つかりません。\r\n"),
        ("cp936", "找不到文件\r\n"),
    ],
)
def test_what_is_not_utf_8_is_of_the_consoles_code_page(code_page: str, text: str) -> None:
    assert as_text(text.encode(code_page), code_page) == text


def test_a_lone_bad_byte_costs_one_letter_and_not_the_line() -> None:
    assert as_text("Größe, Übung".encode() + b"\xff\n", OEM) == "Größe, Übung\ufffd\n"


def test_programs_that_disagree_are_read_each_by_its_own_lines() -> None:
    data = f"{EMOJI}\n".encode() + "Größe\r\n".encode(OEM) + b"plain\n"
    assert as_text(data, OEM) == f"{EMOJI}\nGröße\r\nplain\n"


def test_a_cut_at_the_beginning_does_not_make_it_another_encoding() -> None:
    for cut in (1, 2, 3):
        assert as_text("😀 plain\n".encode()[cut:], OEM, is_cut=True) == "\ufffd plain\n"
    assert as_text("über\n".encode(OEM), OEM) == "über\n", "but only where something was cut"


def test_elsewhere_what_is_not_utf_8_is_replaced() -> None:
    assert as_text(b"a\xffb\0c", None) == "a\ufffdb\ufffdc"


@pytest.mark.parametrize("code_page", [None, OEM, "cp932", "cp65001" if os.name == "nt" else "utf-8"])
def test_no_bytes_fail(code_page: str | None) -> None:
    for first in range(256):
        for second in (0x00, 0x0A, 0x41, 0x81, 0xFF):
            assert isinstance(as_text(bytes([first, second, first]), code_page), str)


def test_the_beginning_of_a_letter_waits_for_its_end() -> None:
    data = "a€😀".encode()
    for end in range(len(data) + 1):
        assert whole_letters(data[:end]).decode() == data[:end].decode("utf-8", "ignore")


# --- following ---


class Console(io.BytesIO):
    def isatty(self) -> bool:
        return True


def shown(tail: Tail, stream: io.BytesIO, chunks: list[bytes], row: str, tmp_path: Path) -> bytes:
    for chunk in chunks:
        tail.show(chunk)
    tail.show_rest(str(tmp_path / "no such file"), row)
    return stream.getvalue()


@pytest.mark.parametrize("encoding", ["utf-8", OEM])
def test_bytes_pass_through_as_they_are_and_the_rest_comes_from_the_row(encoding: str, tmp_path: Path) -> None:
    data = "Größe\r\nÜbung €\nähnlich".replace("€", "ß" if encoding == OEM else "€").encode(encoding)
    row = as_text(data, OEM)
    for end in range(len(data) + 1):
        for middle in (0, end // 2):
            stream = io.BytesIO()
            chunks = [data[:middle], data[middle:end]]
            found = shown(Tail(stream, code_page=OEM), stream, chunks, row, tmp_path)
            assert found.startswith(data[:end]) and as_text(found, OEM) == row, data[:end]


def test_a_console_is_shown_letters_whatever_the_encoding(tmp_path: Path) -> None:
    data = f"{EMOJI}\n".encode() + "Größe\n".encode(OEM)
    for end in range(len(data) + 1):
        stream = Console()
        found = shown(Tail(stream, code_page=OEM), stream, [data[:end]], as_text(data, OEM), tmp_path)
        assert found.decode() == f"{EMOJI}\nGröße\n", data[:end]


def test_a_line_without_an_end_is_followed_without_keeping_it(tmp_path: Path) -> None:
    data = ("ü" * CHUNK).encode()
    stream = io.BytesIO()
    tail = Tail(stream, code_page=None)
    chunks = [data[place : place + 999] for place in range(0, len(data) - 5000, 999)]
    assert shown(tail, stream, chunks, data.decode(), tmp_path) == data
    assert len(tail._line) <= CHUNK + 999


# --- real commands ---


PRINT = "import sys; sys.stdout.buffer.write(bytes.fromhex(sys.argv[1]))"


def test_a_jobs_output_is_read_as_utf_8_and_its_line_ends_are_kept(cli: Cli) -> None:
    data = f"{EMOJI}\r\nunix\nmac\rend".encode()
    seen = data.replace(os.linesep.encode(), b"\n")  # as the fixture shows what a command prints
    assert cli("run", "--", sys.executable, "-c", PRINT, data.hex()).stdout.encode() == seen
    assert job(cli, "1")["output"].encode() == data
    assert cli("logs", "1", PYTHONUTF8="1").stdout.encode() == seen
    assert seen in cli("show", "1", PYTHONUTF8="1").stdout.encode()


@pytest.mark.skipif(os.name != "nt", reason="only Windows has code pages")
def test_a_jobs_output_in_the_code_page_is_read_as_that(cli: Cli) -> None:
    text = "caf\xe9 \xfc"
    cli.ok("run", "--", sys.executable, "-c", PRINT, text.encode("oem").hex())
    assert job(cli, "1")["output"] == text


def test_a_worker_runs_in_utf_8_mode_and_its_jobs_do_not_hear_of_it(cli: Cli) -> None:
    told = "import sys; print(sys.flags.utf8_mode)"
    alone = {**cli.env, "PYTHONUTF8": "0"}
    cli.env.update(alone)
    assert cli("run", "--", sys.executable, "-c", told).stdout.strip() == "0"
    [worker] = json.loads(cli.ok("worker", "list", "--json"))
    import psutil

    assert psutil.Process(worker["pid"]).cmdline()[1:3] == ["-X", "utf8"]


# --- what the command line prints ---


@pytest.mark.parametrize("encoding", ["cp1252", "cp437", "ascii", "cp1252:strict"])
def test_no_command_fails_on_a_console_that_cannot_show_a_letter(cli: Cli, encoding: str) -> None:
    cli.ok("enqueue", "--id", "a", "--", sys.executable, "-c", PRINT, EMOJI.encode().hex(), EMOJI)
    cli.ok("worker", "start")
    eventually(lambda: state(cli, "a") == "completed")
    for command in (
        ["list"],
        ["show", "a"],
        ["show", "a", "--json"],
        ["logs", "a"],
        ["logs", "-f", "a"],
        ["metrics"],
        ["enqueue", f"echo {EMOJI}"],
        ["enqueue", "--help"],
        ["--help"],
    ):
        done = cli(*command, PYTHONIOENCODING=encoding)
        assert done.returncode == 0 and "Traceback" not in done.stderr, (command, done.stderr)
    done = cli("show", EMOJI, PYTHONIOENCODING=encoding)
    assert done.returncode == 1 and done.stderr.startswith("Error: No job"), done.stderr
    shown = cli("show", "a", PYTHONIOENCODING=encoding).stdout
    if encoding != "ascii":  # which Click takes for a mistake, and writes UTF-8
        assert "?" in shown.split("output\n")[-1], shown
