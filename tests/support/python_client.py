"""`python_client.py SOCKET ARGUMENTS...`: a command that does what `python ARGUMENTS...` does, but
forked from the process that serves the socket. Signals go on to the program, and the command ends
with the program's exit code or signal."""

import json
import os
import signal
import socket
import sys

PASSED_ON = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)

connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
connection.connect(sys.argv[1])
signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)  # until there is whom to pass them on to
wanted = {"arguments": sys.argv[2:], "environment": dict(os.environ), "cwd": os.getcwd()}
socket.send_fds(connection, [json.dumps(wanted).encode()], [0, 1, 2])
program = int(connection.recv(64))
for number in PASSED_ON:
    signal.signal(number, lambda got, _: os.kill(program, got))
signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
code = int(connection.recv(64))
if code < 0:
    if -code != signal.SIGKILL:
        signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
sys.exit(code)
