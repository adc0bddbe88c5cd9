static timer_t ticking;

static void set_timer(struct itimerspec times) {
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    if (timer_create(CLOCK_MONOTONIC, &event, &ticking) != 0 || timer_settime(ticking, 0, &times, NULL) != 0) fail("timer");
}

// A signal every 300 us (our choice: often within each call).
static void tick(void (*handler)(int), int flags) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    sigaction(SIGUSR1, &action, NULL);
    set_timer((struct itimerspec){{0, 300000}, {0, 300000}});
}

static void tick_once(int ms) { set_timer((struct itimerspec){{0, 0}, {0, ms * 1000000}}); }

static void tick_no_more(void) {
    signal(SIGUSR1, SIG_IGN);
    timer_delete(ticking);
}
