// start WAY PROGRAM [FOLDER]: runs the program, in the folder as its root, by a way of the C library's or by one of the kernel's.
// start [SCRIPT] hello: what is run; it says whether it was given a library to load.
#define _GNU_SOURCE
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

int main(int argc, char **argv) {
    if (strcmp(argv[argc - 1], "hello") == 0) {
        const char *loads = getenv("LD_PRELOAD");
        return puts(loads && strstr(loads, "paceline") ? "hello with" : "hello without") < 0;
    }
    const char *way = argv[1], *program = argv[2];
    char *words[] = {(char *)program, "hello", NULL};
    if (argc > 3 && (chroot(argv[3]) != 0 || chdir("/") != 0)) return 71;
    // After a vfork most of them are called in programs.
    pid_t child = strncmp(way, "posix_spawn", 11) == 0 || strcmp(way, "system") == 0 ? -1 : vfork();
    int status = 0;
    if (child == 0) {
        if (strcmp(way, "execve") == 0) execve(program, words, environ);
        if (strcmp(way, "execv") == 0) execv(program, words);
        if (strcmp(way, "execvp") == 0) execvp(strrchr(program, '/') + 1, words);
        if (strcmp(way, "execvpe") == 0) execvpe(program, words, environ);
        if (strcmp(way, "execl") == 0) execl(program, program, "hello", NULL);
        if (strcmp(way, "execlp") == 0) execlp(strrchr(program, '/') + 1, program, "hello", NULL);
        if (strcmp(way, "execle") == 0) execle(program, program, "hello", NULL, environ);
        if (strcmp(way, "fexecve") == 0) fexecve(open(program, O_RDONLY), words, environ);
        if (strcmp(way, "execveat") == 0) execveat(AT_FDCWD, program, words, environ, 0);
        if (strcmp(way, "place") == 0) execveat(open(program, O_PATH), "", words, environ, AT_EMPTY_PATH);
        if (strcmp(way, "syscall") == 0) syscall(SYS_execve, program, words, environ);
        _exit(72);
    }
    if (strcmp(way, "posix_spawn") == 0 && posix_spawn(&child, program, NULL, NULL, words, environ) != 0) return 73;
    if (strcmp(way, "posix_spawnp") == 0 && posix_spawnp(&child, strrchr(program, '/') + 1, NULL, NULL, words, environ) != 0) return 73;
    if (strcmp(way, "posix_spawn_elsewhere") == 0) {
        char folder[4200], *name = strrchr(program, '/');
        snprintf(folder, sizeof folder, "%.*s/..", (int)(name - program), program);
        char *last = memrchr(program, '/', name - program);
        posix_spawn_file_actions_t actions;
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_addchdir_np(&actions, folder);
        if (posix_spawn(&child, last + 1, &actions, NULL, words, environ) != 0) return 73;
    }
    if (strcmp(way, "system") == 0) {
        char line[4200];
        snprintf(line, sizeof line, "%s hello", program);
        return system(line) != 0;
    }
    return waitpid(child, &status, 0) != child || status != 0;
}
