"""Which system calls sandboxed code may make: a list of what Python needs, all else fails with EPERM.

No sockets but socketpair, no new processes (threads only), no ptrace, keyrings, mounts, namespaces, io_uring or BPF.
Calls that are many in one (ioctl, fcntl, prctl, madvise, futex …) are allowed for the arguments that are listed: what
takes memory of the kernel's that no limit counts is in no list, nor is what reaches beyond this process. Nothing inside
can have the kernel send SIGCONT: a process that was stopped from outside stays so. The filter is classic BPF, as
seccomp(2) takes it.
"""

from __future__ import annotations

import platform
import struct

from antiphon.errors import ConfigError

_ALLOWED = {
    "read": 0, "write": 1, "open": 2, "close": 3, "stat": 4, "fstat": 5, "lstat": 6, "poll": 7, "lseek": 8,
    "mprotect": 10, "munmap": 11, "brk": 12, "rt_sigaction": 13, "rt_sigprocmask": 14, "rt_sigreturn": 15,
    "pread64": 17, "pwrite64": 18, "readv": 19, "writev": 20, "access": 21, "pipe": 22, "select": 23, "sched_yield": 24,
    "mremap": 25, "msync": 26, "mincore": 27, "dup": 32, "dup2": 33, "pause": 34, "nanosleep": 35, "getitimer": 36,
    "alarm": 37, "setitimer": 38, "getpid": 39, "sendfile": 40, "shutdown": 48, "getsockname": 51, "getsockopt": 55,
    "execve": 59, "exit": 60, "wait4": 61, "uname": 63, "fsync": 74, "fdatasync": 75, "truncate": 76, "ftruncate": 77,
    "getdents": 78, "getcwd": 79, "chdir": 80, "fchdir": 81, "rename": 82, "mkdir": 83, "rmdir": 84, "link": 86,
    "unlink": 87, "symlink": 88, "readlink": 89, "chmod": 90, "fchmod": 91, "umask": 95, "gettimeofday": 96,
    "getrlimit": 97, "getrusage": 98, "sysinfo": 99, "times": 100, "getuid": 102, "getgid": 104, "geteuid": 107,
    "getegid": 108, "getppid": 110, "getpgrp": 111, "getgroups": 115, "getresuid": 118, "getresgid": 120,
    "getpgid": 121, "getsid": 124, "capget": 125, "rt_sigpending": 127, "rt_sigtimedwait": 128, "rt_sigsuspend": 130,
    "sigaltstack": 131, "statfs": 137, "fstatfs": 138, "getpriority": 140, "sched_getparam": 143,
    "sched_getscheduler": 145, "gettid": 186, "time": 201, "sched_getaffinity": 204, "getdents64": 217,
    "set_tid_address": 218, "restart_syscall": 219, "clock_gettime": 228, "clock_getres": 229, "clock_nanosleep": 230,
    "exit_group": 231, "epoll_wait": 232, "epoll_ctl": 233, "get_mempolicy": 239, "waitid": 247, "openat": 257,
    "mkdirat": 258, "newfstatat": 262, "unlinkat": 263, "renameat": 264, "linkat": 265, "symlinkat": 266,
    "readlinkat": 267, "fchmodat": 268, "faccessat": 269, "pselect6": 270, "ppoll": 271, "set_robust_list": 273,
    "get_robust_list": 274, "utimensat": 280, "epoll_pwait": 281, "fallocate": 285, "eventfd2": 290,
    "epoll_create1": 291, "dup3": 292, "preadv": 295, "pwritev": 296, "getcpu": 309, "renameat2": 316, "getrandom": 318,
    "copy_file_range": 326, "statx": 332, "rseq": 334, "faccessat2": 439,
}  # fmt: skip
"""Allowed without conditions; execve, wait4 and waitid because bubblewrap starts and reaps Python under the filter."""

_BECOME = {"setgroups": 116, "setresuid": 117, "setresgid": 119, "capset": 126}
_DROP_BOUNDING = 24
"""Allowed as well where the worker itself gives up root; without root they change nothing."""

_CLONE, _CLONE3 = 56, 435
_CLONE_THREAD = 0x10000
_SIGCONT = 18

_ALLOW = 0x7FFF0000
_KILL = 0x80000000
_DONE = 0x00050000
"""The call is not made, and what made it is told that it succeeded."""
_EPERM = 0x00050000 | 1
_ENOLCK = 0x00050000 | 37
_ENOSYS = 0x00050000 | 38

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NR, _ARCH, _ARG0, _ARG1, _ARG2, _ARG3 = 0, 4, 16, 24, 32, 40
_AUDIT_X86_64 = 0xC000003E
_X32_BIT = 0x40000000


_FCNTL, _PRCTL, _FLOCK = 72, 157, 73
_OPERATIONS = {
    # ioctl: TCGETS and TCGETS2 (isatty), TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX.
    (16, _ARG1): (0x5401, 0x802C542A, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451),
    # fcntl: duplicates, flags, and whether a range is locked. No owner, signal, lease or notification: they send
    # signals or hinder others. No sizes of pipes: the kernel's memory.
    (_FCNTL, _ARG1): (0, 1, 2, 3, 4, 5, 1030),
    # prctl: the name of a thread.
    (_PRCTL, _ARG0): (15, 16),
    # arch_prctl: where a thread's own memory is.
    (158, _ARG0): (0x1002, 0x1003),
    # madvise: how memory is used (0-3), that it is free (4, 8), huge pages (14, 15), dumps and forks (16-19), guards of
    # stacks (102, 103). No MADV_MERGEABLE, which tells by timing what others have in theirs; none that moves it out.
    (28, _ARG2): (0, 1, 2, 3, 4, 8, 14, 15, 16, 17, 18, 19, 102, 103),
    # posix_fadvise: how a file is used, but not that the machine's memory of it be dropped.
    (221, _ARG3): (0, 1, 2, 3, 5),
    # futex: to wait, wake and requeue; private or not, by either clock. Nothing that inherits priorities.
    (202, _ARG1): (0, 1, 3, 4, 5, 9, 10, 128, 129, 131, 132, 133, 137, 138, 265, 393),
    # membarrier: which there are, and that of this process.
    (324, _ARG0): (0, 8, 16),
    # prlimit64: of this process.
    (302, _ARG0): (0,),
    # socketpair: of the Unix kind.
    (53, _ARG0): (1,),
    # pipe2: closed at an exec, not blocking; no pipe of notifications.
    (293, _ARG1): (0, 0x800, 0x80000, 0x80800),
}  # fmt: skip
"""(call, argument) → the values of this argument for which the call is allowed."""

_FLAGS = {
    # mmap: all but locked memory, huge pages out of the machine's store, and what is younger than this list.
    (9, _ARG3): 0x0013D973,
    # sendto, recvfrom: MSG_PEEK, MSG_TRUNC, MSG_DONTWAIT, MSG_WAITALL, MSG_NOSIGNAL. Nothing out of band.
    (44, _ARG3): 0x4162,
    (45, _ARG3): 0x4162,
}
"""(call, argument) → the bits that may be set in this argument."""

_LOCKS = {6: _DONE, 7: _DONE, 36: _ENOLCK, 37: _ENOLCK, 38: _ENOLCK}
"""Answers to fcntl's commands of locks. Each lock takes memory of the kernel's, which no limit counts, and would hold
off the host's programs where the file is the host's. A record lock (F_SETLK, F_SETLKW) never meets another of its own
process, and there is no other process: it is granted without asking. Locks of open files, as flock's are, do meet:
refused."""

_SIGNALS = {62: _ARG1, 200: _ARG1, 234: _ARG2}
"""kill, tkill, tgkill → which argument is the signal."""


def filter_program(*, becomes_other_user: bool = False) -> bytes:
    """The filter for this machine; ``becomes_other_user``: the worker starts as root and gives it up.

    Raises `ConfigError` on a machine whose system calls we have no table of.
    """
    if platform.machine() not in ("x86_64", "AMD64"):
        raise ConfigError(
            f"no system call filter for {platform.machine()}",
            code="sandbox_missing",
            hint="The python tool runs on x86_64 Linux; leave it off here.",
        )
    program = [
        _instruction(_LOAD, k=_ARCH),
        _instruction(_EQUAL, 1, 0, _AUDIT_X86_64),
        _instruction(_RETURN, k=_KILL),
        _instruction(_LOAD, k=_NR),
        _instruction(_AT_LEAST, 0, 1, _X32_BIT),
        _instruction(_RETURN, k=_EPERM),
    ]
    allowed = _ALLOWED | _BECOME if becomes_other_user else _ALLOWED
    for number in allowed.values():
        program += _for(number, [_instruction(_RETURN, k=_ALLOW)])
    # glibc falls back to clone, whose flags a filter can read.
    program += _for(_CLONE3, [_instruction(_RETURN, k=_ENOSYS)])
    program += _for(_CLONE, [_instruction(_LOAD, k=_ARG0), *_if(_ANY_BIT, _CLONE_THREAD), *_REFUSED])
    program += _for(_FLOCK, [_instruction(_RETURN, k=_ENOLCK)])
    for (number, argument), values in _OPERATIONS.items():
        verdicts = dict.fromkeys(values, _ALLOW) | (_LOCKS if number == _FCNTL else {})
        if number == _PRCTL and becomes_other_user:
            verdicts[_DROP_BOUNDING] = _ALLOW
        tests = [test for value, verdict in verdicts.items() for test in _if(_EQUAL, value, verdict)]
        program += _for(number, [_instruction(_LOAD, k=argument), *tests, *_REFUSED])
    for (number, argument), bits in _FLAGS.items():
        unknown = _if(_ANY_BIT, ~bits & 0xFFFFFFFF, _EPERM)
        program += _for(number, [_instruction(_LOAD, k=argument), *unknown, _instruction(_RETURN, k=_ALLOW)])
    for number, argument in _SIGNALS.items():
        is_continue = [_instruction(_LOAD, k=argument), *_if(_EQUAL, _SIGCONT, _EPERM)]
        program += _for(number, [*is_continue, _instruction(_RETURN, k=_ALLOW)])
    return b"".join([*program, *_REFUSED])


def _instruction(code: int, jump_true: int = 0, jump_false: int = 0, k: int = 0) -> bytes:
    return struct.pack("=HBBI", code, jump_true, jump_false, k)


def _if(test: int, value: int, verdict: int = _ALLOW) -> list[bytes]:
    """Ends with ``verdict`` when what was loaded passes the test."""
    return [_instruction(test, 0, 1, value), _instruction(_RETURN, k=verdict)]


def _for(number: int, program: list[bytes]) -> list[bytes]:
    """The program for one system call, whose number is loaded; it returns on every path."""
    return [_instruction(_EQUAL, 0, len(program), number), *program]


_REFUSED = [_instruction(_RETURN, k=_EPERM)]
