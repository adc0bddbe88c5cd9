"""What scripts/soak-shim is made of.

plan      what a round does, drawn from a seed or fixed
round     one round in namespaces of its own: starts the server, runs the clients, compares, stops the server
client    the clients of a round, in one process behind the emulated path
stream, sessions, commands
          one connection; what is said over it in each protocol; client programs
program   what is known of a program; web, languages, relays, stores, files, mail, repositories have the programs
kinds     rounds of many idle connections, of few descriptors and so on
servers   small servers for language run-times, and the origin behind proxies
"""
