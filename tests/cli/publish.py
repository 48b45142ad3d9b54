#!/usr/bin/env python3
"""Publish lines "SUBJECT TEXT" of standard input to NATS, each as one message.

usage: publish.py nats://HOST:PORT
"""
import socket
import sys
import urllib.parse

address = urllib.parse.urlsplit(sys.argv[1])
with socket.create_connection((address.hostname, address.port)) as server:
    server.sendall(b'CONNECT {"verbose":false,"pedantic":false}\r\n')
    for line in sys.stdin.buffer:
        subject, _, text = line.rstrip(b"\n").partition(b" ")
        server.sendall(b"PUB %s %d\r\n%s\r\n" % (subject, len(text), text))
    server.sendall(b"PING\r\n")
    answer = b""
    while b"PONG" not in answer:
        answer += server.recv(4096)
