"""Runs a program that may not reach out: a system call that would make an outgoing connection ends it with SIGSYS.

    python3 -B tests/end_to_end/no_connections.py PROGRAM [ARGUMENT ...]

A filter in the kernel (seccomp), which children inherit and nobody can take off: connect() of any kind, sendto() that
opens a connection by its first bytes, datagram and raw sockets of the Internet, and io_uring, which goes past filters.
What is accepted is not touched. Ends with 77 when this system lets nobody install it."""

import ctypes
import os
import platform
import struct
import sys

REFUSED_BY_SYSTEM = 77
# Numbers of system calls: connect, sendto, socket, io_uring_setup.
MACHINES = {"x86_64": (0xC000003E, 42, 44, 41, 425), "aarch64": (0xC00000B7, 203, 206, 198, 425)}
ALLOW, KILL = 0x7FFF0000, 0x80000000
MSG_FASTOPEN = 0x20000000
AF_INET, AF_INET6, SOCK_STREAM = 2, 10, 1
LOAD, EQUAL, ANY_BIT, AND, RETURN = 0x20, 0x15, 0x45, 0x54, 0x06
NUMBER_AT, MACHINE_AT, ARGUMENTS_AT = 0, 4, 16
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2


def program(machine):
    """Instructions as (code, value, jump when true, jump when false), jumps by the names of labels."""
    audit, connect, sendto, new_socket, uring = MACHINES[machine]
    lines = [
        (LOAD, MACHINE_AT), (EQUAL, audit, None, "kill"),
        (LOAD, NUMBER_AT), (EQUAL, connect, "kill", None), (EQUAL, uring, "kill", None),
        (EQUAL, sendto, "sendto", None), (EQUAL, new_socket, "socket", "allow"),
        "sendto", (LOAD, ARGUMENTS_AT + 3 * 8), (ANY_BIT, MSG_FASTOPEN, "kill", "allow"),
        "socket", (LOAD, ARGUMENTS_AT), (EQUAL, AF_INET, "internet", None), (EQUAL, AF_INET6, "internet", "allow"),
        "internet", (LOAD, ARGUMENTS_AT + 8), (AND, 0xF), (EQUAL, SOCK_STREAM, "allow", "kill"),
        "allow", (RETURN, ALLOW),
        "kill", (RETURN, KILL),
    ]
    places, instructions = {}, []
    for line in lines:
        if isinstance(line, str):
            places[line] = len(instructions)
        else:
            instructions.append(line)
    packed = b""
    for place, (code, value, *jumps) in enumerate(instructions):
        jump = [places[label] - place - 1 if label else 0 for label in jumps or (None, None)]
        packed += struct.pack("HBBI", code, *jump, value)
    return packed, len(instructions)


def forbid_connections():
    """Of this process and all that it becomes or starts; OSError where that is not allowed."""
    packed, count = program(platform.machine())
    libc = ctypes.CDLL(None, use_errno=True)
    instructions = ctypes.create_string_buffer(packed, len(packed))
    filter_ = struct.pack("HxxxxxxP", count, ctypes.addressof(instructions))
    for call in ((PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, filter_, 0, 0)):
        if libc.prctl(*call) != 0:
            raise OSError(ctypes.get_errno(), "a filter of system calls")


if __name__ == "__main__":
    try:
        forbid_connections()
    except (OSError, KeyError) as fault:
        print(f"no_connections: cannot be forbidden here: {fault!r}", file=sys.stderr)
        sys.exit(REFUSED_BY_SYSTEM)
    os.execv(sys.argv[1], sys.argv[1:])
