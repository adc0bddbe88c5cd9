"""Uploads and downloads over loopback."""

from __future__ import annotations

import pathlib
import signal
import socket
import threading
import time

import pytest
from paceline import transfer


def test_a_file_goes_up_and_comes_back(tmp_path: pathlib.Path) -> None:
    file, back = tmp_path / "photo", tmp_path / "back"
    file.write_bytes(bytes(range(256)) * 1000)
    with transfer.Server(tmp_path / "kept", key=bytes(range(32))) as server:
        token = server.token("pho", days=1)
        sent = transfer.send(file, server.address, controller="sprout", token=token)
        assert (sent.bytes, sent.resumed, sent.verified) == (256_000, 0, True)
        assert transfer.fetch("photo", server.address, back, token=token).bytes == 256_000
        assert back.read_bytes() == (tmp_path / "kept" / "photo").read_bytes() == file.read_bytes()
        with pytest.raises(OSError, match="says: this needs a token of this server"):
            transfer.fetch("photo", server.address, tmp_path / "none")
        with pytest.raises(OSError, match="cannot be read"):
            transfer.send(tmp_path / "nothing", server.address, token=token)
        server.close()
        assert [(one.kind, one.name, one.status) for one in server.sessions] == [
            ("put", "photo", "done"),
            ("get", "photo", "done"),
            ("get", "photo", "refused"),
        ]


def test_words_for_what_cannot_be(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        transfer.Server(tmp_path, key=b"short")
    with pytest.raises(ValueError, match="controller 'sprout': it needs its receiver half at the client"):
        transfer.Server(tmp_path, controller="sprout")
    with pytest.raises(OSError, match="127.0.0.1:9: no connection"):
        transfer.fetch("photo", "127.0.0.1:9", tmp_path / "back")
    with transfer.Server(tmp_path) as server:
        with pytest.raises(ValueError, match="has no key"):
            server.token()
        with pytest.raises(ValueError, match="token: "):
            transfer.fetch("photo", server.address, tmp_path / "back", token="none")


def test_ctrl_c_stops_a_transfer(tmp_path: pathlib.Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port, begun = silent.getsockname()[1], time.monotonic()
        threading.Timer(0.5, lambda: signal.raise_signal(signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            transfer.fetch("photo", f"127.0.0.1:{port}", tmp_path / "back", timeout=600)
        assert time.monotonic() - begun < 300
    assert not list(tmp_path.iterdir())
