// local [LIBRARY]: serves one connection 300 kB, with LOCAL bytes of thread-local storage of its own; with a library, opens it after it has
// begun. As a library (-DLIBRARY) it has the storage alone.
#include <arpa/inet.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static __thread char storage[LOCAL];

char *LOCAL_NAME(void) { return storage; }

#ifndef LIBRARY
char *library_storage(void);

int main(int argc, char **argv) {
    static char bytes[300000];
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    if (bind(listener, (void *)&address, len) != 0 || listen(listener, 1) != 0) return 71;
    getsockname(listener, (void *)&address, &len);
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    memset(program_storage(), 1, LOCAL);
#ifdef LINKED
    memset(library_storage(), 1, LOCAL);
#endif
    if (argc > 1) {
        void *library = dlopen(argv[1], RTLD_NOW);
        char *(*of_library)(void) = library ? (char *(*)(void))dlsym(library, "library_storage") : NULL;
        if (!of_library) return 72;
        memset(of_library(), 1, LOCAL);
    }
    int fd = accept(listener, NULL, NULL);
    for (size_t done = 0; done < sizeof bytes;) {
        ssize_t k = write(fd, bytes + done, sizeof bytes - done);
        if (k < 0) return 73;
        done += k;
    }
    return close(fd);
}
#endif
