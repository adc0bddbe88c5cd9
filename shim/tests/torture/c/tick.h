// A signal every 300 us (our choice: often within each call).
static timer_t ticking;

static void tick(void (*handler)(int), int flags) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    struct itimerspec often = {{0, 300000}, {0, 300000}};
    sigaction(SIGUSR1, &action, NULL);
    if (timer_create(CLOCK_MONOTONIC, &event, &ticking) != 0 || timer_settime(ticking, 0, &often, NULL) != 0) fail("timer");
}

static void tick_no_more(void) {
    signal(SIGUSR1, SIG_IGN);
    timer_delete(ticking);
}
