// A program with a sigaction of its own, which calls the next one, as Erlang's runtime has it.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>

static int (*next)(int, const struct sigaction *, struct sigaction *);

int __sigaction(int number, const struct sigaction *new, struct sigaction *old) {
    if (!next) next = dlsym(RTLD_NEXT, "__sigaction");
    return next(number, new, old);
}

int sigaction(int number, const struct sigaction *new, struct sigaction *old) { return __sigaction(number, new, old); }

int main(void) {
    struct sigaction ignore = {.sa_handler = SIG_IGN}, before;
    if (sigaction(SIGTERM, &ignore, &before) != 0 || before.sa_handler != SIG_DFL) return 1;
    if (sigaction(SIGTERM, NULL, &before) != 0 || before.sa_handler != SIG_IGN) return 2;
    raise(SIGTERM);
    puts("ok");
    return 0;
}
