// A handler of faults, which must not run but where a fault is expected.
static sigjmp_buf after_fault;
static volatile int expected;

static void faulted(int number) {
    if (expected) siglongjmp(after_fault, 1);
    static const char line[] = "a handler of faults ran\n";
    if (write(LINES, line, sizeof line - 1) < 0) _exit(72);
    _exit(73);
    (void)number;
}

static void on_fault(int number) {
    struct sigaction action = {.sa_handler = faulted};
    sigaction(number, &action, NULL);
}
