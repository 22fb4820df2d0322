"""The system call filter, run as the kernel runs it: an interpreter of classic BPF on the calls that code may try."""

from __future__ import annotations

import errno
import fcntl
import platform
import struct
import termios
from functools import cache

import pytest

from antiphon.errors import ConfigError
from antiphon.tools.python.seccomp import filter_program

ALLOWED = 0x7FFF0000
KILLED = 0x80000000
X86_64 = 0xC000003E
I386 = 0x40000003
REFUSED = 0x00050000 | errno.EPERM
ABSENT = 0x00050000 | errno.ENOSYS
NO_LOCK = 0x00050000 | errno.ENOLCK
GRANTED = 0x00050000
"""The call is not made, and succeeds."""


@cache
def program(*, as_root: bool) -> list[tuple[int, int, int, int]]:
    return list(struct.iter_unpack("=HBBI", filter_program(becomes_other_user=as_root)))


def verdict(call: int, *arguments: int, machine: int = X86_64, as_root: bool = False) -> int:
    """What the filter answers to a call: the instructions that it has are load, return and three jumps."""
    values = [*arguments, *[0] * (6 - len(arguments))]
    data = struct.pack("=IIQ6Q", call, machine, 0, *values)
    at = loaded = 0
    while True:
        code, jump_true, jump_false, k = program(as_root=as_root)[at]
        at += 1
        match code:
            case 0x06:
                return int(k)
            case 0x20:
                (loaded,) = struct.unpack_from("=I", data, k)
            case 0x15 | 0x35 | 0x45:
                met = {0x15: loaded == k, 0x35: loaded >= k, 0x45: bool(loaded & k)}[code]
                at += jump_true if met else jump_false
            case other:
                raise AssertionError(f"no instruction {other:#x}")


def test_the_filter_is_no_longer_than_the_kernel_takes() -> None:
    assert len(filter_program(becomes_other_user=True)) <= 4096 * 8


@pytest.mark.parametrize("call", [0, 1, 3, 9, 28, 59, 202, 231, 257, 318, 439])
def test_what_python_needs_is_allowed(call: int) -> None:
    assert verdict(call) == ALLOWED


NEEDLESS = {
    "socket": 41, "connect": 42, "accept": 43, "sendmsg": 46, "recvmsg": 47, "bind": 49, "listen": 50, "fork": 57,
    "vfork": 58, "chown": 92, "ptrace": 101, "setuid": 105, "setgid": 106, "setpgid": 109, "setsid": 112,
    "rt_sigqueueinfo": 129, "mknod": 133, "pivot_root": 155, "setrlimit": 160, "chroot": 161, "mount": 165,
    "umount": 166, "reboot": 169, "init_module": 175, "timer_create": 222, "mq_open": 240, "add_key": 248,
    "keyctl": 250, "unshare": 272, "perf_event_open": 298, "open_by_handle_at": 304, "setns": 308,
    "process_vm_readv": 310, "memfd_create": 319, "bpf": 321, "execveat": 322, "userfaultfd": 323,
    "io_uring_setup": 425, "pidfd_open": 434, "a new one": 600,
}  # fmt: skip


@pytest.mark.parametrize("name", NEEDLESS)
def test_what_python_does_not_need_is_refused(name: str) -> None:
    assert verdict(NEEDLESS[name]) == verdict(NEEDLESS[name], as_root=True) == REFUSED


def test_another_machine_s_calls_end_the_process_and_the_other_numbers_of_this_one_are_refused() -> None:
    assert verdict(1, machine=I386) == KILLED
    assert verdict(0x40000000 | 1) == REFUSED
    assert verdict(0x40000000) == REFUSED
    assert verdict(0x3FFFFFFF) == REFUSED


def test_threads_are_allowed_and_processes_are_not() -> None:
    clone, clone3, thread = 56, 435, 0x10000
    assert verdict(clone, 0x3D0F00) == verdict(clone, thread) == ALLOWED
    for flags in (0, 17, 0x1200011, thread - 1, thread << 1):
        assert verdict(clone, flags) == REFUSED
    assert verdict(clone3, thread) == ABSENT, "glibc tries clone then"


def test_only_a_worker_that_is_root_may_become_somebody_else_and_give_up_capabilities() -> None:
    for call in (116, 117, 119, 126):
        assert (verdict(call), verdict(call, as_root=True)) == (REFUSED, ALLOWED)


@pytest.mark.parametrize("call", [62, 200])
def test_signals_go_to_oneself_but_none_that_continues(call: int) -> None:
    assert [signal for signal in range(65) if verdict(call, 1, signal) != ALLOWED] == [18]
    assert verdict(call, 18, 9) == ALLOWED, "the first argument is whom it goes to"


def test_a_thread_s_signals_go_to_oneself_but_none_that_continues() -> None:
    assert [signal for signal in range(65) if verdict(234, 2, 2, signal) != ALLOWED] == [18]
    assert verdict(234, 18, 18, 9) == ALLOWED
    assert verdict(234, 2, 2, 18) == REFUSED


def test_ioctl_asks_and_never_types() -> None:
    asks = {
        termios.TCGETS, 0x802C542A, termios.TIOCGWINSZ, termios.FIONREAD, termios.FIONBIO, termios.FIONCLEX,
        termios.FIOCLEX,
    }  # fmt: skip
    assert {request for request in range(0x5400, 0x5500) if verdict(16, 0, request) == ALLOWED} == asks - {0x802C542A}
    assert verdict(16, 0, 0x802C542A) == ALLOWED
    for near in (0x802C5429, 0x802C542B, 0, 2**32 - 1):
        assert verdict(16, 0, near) == REFUSED
    assert verdict(16, termios.TCGETS, termios.TIOCSTI) == REFUSED


def test_fcntl_duplicates_and_sets_flags_and_does_nothing_else() -> None:
    allowed = {
        fcntl.F_DUPFD, fcntl.F_GETFD, fcntl.F_SETFD, fcntl.F_GETFL, fcntl.F_SETFL, fcntl.F_GETLK, fcntl.F_DUPFD_CLOEXEC,
    }  # fmt: skip
    assert {command for command in range(2048) if verdict(72, 0, command) == ALLOWED} == allowed


def test_no_lock_reaches_the_kernel() -> None:
    assert {command for command in range(2048) if verdict(72, 0, command) == GRANTED} == {fcntl.F_SETLK, fcntl.F_SETLKW}
    of_open_files = {fcntl.F_OFD_GETLK, fcntl.F_OFD_SETLK, fcntl.F_OFD_SETLKW}
    assert {command for command in range(2048) if verdict(72, 0, command) == NO_LOCK} == of_open_files
    assert {verdict(73, 0, operation) for operation in range(16)} == {NO_LOCK}


def test_prctl_gives_names_and_does_nothing_else() -> None:
    assert {option for option in range(128) if verdict(157, option) == ALLOWED} == {15, 16}
    assert {option for option in range(128) if verdict(157, option, as_root=True) == ALLOWED} == {15, 16, 24}
    assert verdict(157, 0x53564D41) == REFUSED
    assert verdict(157, 0, 15) == REFUSED


VALUES = {
    "arch_prctl": (158, 0, {0x1002, 0x1003}, range(0x1000, 0x3100)),
    "madvise": (28, 2, {0, 1, 2, 3, 4, 8, *range(14, 20), 102, 103}, range(512)),
    "fadvise64": (221, 3, {0, 1, 2, 3, 5}, range(512)),
    "membarrier": (324, 0, {0, 8, 16}, range(1024)),
    "prlimit64": (302, 0, {0}, range(1024)),
    "socketpair": (53, 0, {1}, range(64)),
    "pipe2": (293, 1, {0, 0x800, 0x80000, 0x80800}, [1 << bit for bit in range(32)] + [0, 0x80800, 0x84000]),
    "futex": (202, 1, {0, 1, 3, 4, 5, 9, 10, 128, 129, 131, 132, 133, 137, 138, 265, 393}, range(1024)),
}  # fmt: skip
"""A call → its number, the argument that says what it does, the values that are allowed, and those that are tried."""


@pytest.mark.parametrize("name", VALUES)
def test_calls_that_are_many_in_one_are_allowed_for_what_is_listed(name: str) -> None:
    call, place, allowed, tried = VALUES[name]

    def answer(value: int) -> int:
        return verdict(call, *[0] * place, value)

    assert {value for value in (*tried, 0x7FFFFFFF, 0xFFFFFFFF) if answer(value) == ALLOWED} == allowed
    assert {answer(value) for value in tried} == {ALLOWED, REFUSED}


FLAGS = {
    "mmap": (9, {0, 1, 4, 5, 6, 8, 11, 12, 14, 15, 16, 17, 20}),
    "sendto": (44, {1, 5, 6, 8, 14}),
    "recvfrom": (45, {1, 5, 6, 8, 14}),
}


@pytest.mark.parametrize("name", FLAGS)
def test_flags_are_allowed_bit_by_bit(name: str) -> None:
    """No locked or huge pages of the machine's; nothing out of band."""
    call, bits = FLAGS[name]
    assert {bit for bit in range(32) if verdict(call, 0, 0, 0, 1 << bit) == ALLOWED} == bits
    everything = sum(1 << bit for bit in bits)
    assert verdict(call, 0, 0, 0, everything) == verdict(call) == ALLOWED
    for bit in set(range(32)) - bits:
        assert verdict(call, 0, 0, 0, everything | 1 << bit) == REFUSED


def test_a_machine_whose_calls_have_other_numbers_has_no_filter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    with pytest.raises(ConfigError, match="no system call filter for aarch64") as caught:
        filter_program()
    assert caught.value.code == "sandbox_missing"
    for name in ("x86_64", "AMD64"):
        monkeypatch.setattr(platform, "machine", lambda name=name: name)
        assert filter_program()
