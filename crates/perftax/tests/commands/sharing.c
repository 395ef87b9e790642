/* Threads that share lines in known ways: sharing WHAT [ROUNDS [THREADS]].
 *
 * Hand-overs are forced: a token goes around among the threads by a futex-free spin on a line of its own, so that every touch of the watched
 * line comes after another thread's, whatever the scheduler does.
 *
 * A debug exception that a hypervisor stripped of its reason (docs/guide/comm.md) is outlived and said: one in a million traps, and not what the tests
 * are about.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct pair { volatile uint64_t first, second; };

_Alignas(64) struct pair counters;          /* side by side: falsely shared */
_Alignas(64) volatile uint64_t one_lock;    /* truly shared */
_Alignas(64) volatile uint64_t words[8];    /* a whole line, a word a thread */
_Alignas(64) volatile uint64_t lines[8][8]; /* eight lines */
_Alignas(64) static volatile unsigned turn; /* never watched */
_Alignas(64) __thread volatile uint64_t own;

static unsigned rounds = 200, threads = 2;

/* Waits for the token. */
static void wait_for(unsigned who) {
    while (__atomic_load_n(&turn, __ATOMIC_ACQUIRE) % threads != who) sched_yield();
}

static void pass(void) {
    __atomic_fetch_add(&turn, 1, __ATOMIC_RELEASE);
}

__attribute__((noinline)) static void bump_first(void) {
    counters.first++; /* FIRST */
}

__attribute__((noinline)) static void bump_second(void) {
    counters.second++; /* SECOND */
}

__attribute__((noinline)) static void take_lock(void) {
    one_lock++; /* LOCK */
}

__attribute__((noinline)) static void bump_word(unsigned who) {
    words[who]++;
}

__attribute__((noinline)) static void bump_lines(unsigned who) {
    for (unsigned line = 0; line < 8; line++) lines[line][who]++;
}

/* An object of the heap, by way of a function that is inlined or not. */
static struct pair *made;

__attribute__((noinline)) static struct pair *make_pairs(size_t count) {
    return calloc(count, sizeof(struct pair)); /* MADE */
}

__attribute__((noinline)) static void make_all(void) {
    made = make_pairs(256); /* CALLED */
    /* Into the next line: two pairs fill half of one, and objects begin at any multiple of 16. */
    made += 4;
}

__attribute__((noinline)) static void bump_made(unsigned who) {
    if (who % 2) made->second++;
    else made->first++;
}

enum { FALSE, TRUE, WORDS, LINES, HEAP } what;

static void *work(void *argument) {
    unsigned who = (unsigned)(uintptr_t)argument;
    char name[16];
    snprintf(name, sizeof name, "worker-%u", who);
    pthread_setname_np(pthread_self(), name);
    for (unsigned i = 0; i < rounds; i++) {
        wait_for(who);
        switch (what) {
        case FALSE: who % 2 ? bump_second() : bump_first(); break;
        case TRUE: take_lock(); break;
        case WORDS: bump_word(who % 8); break;
        case LINES: bump_lines(who % 8); break;
        case HEAP: bump_made(who); break;
        }
        own++;
        pass();
    }
    return NULL;
}

/* An exception without a reason is TRAP_BRKPT to Linux. Any other trap kills. */
static void outlive(int signal, siginfo_t *info, void *context) {
    (void)context;
    if (info->si_code == TRAP_BRKPT) {
        static const char said[] = "sharing: outlived a debug exception without a reason\n";
        if (write(2, said, sizeof said - 1) < 0) _exit(5);
        return;
    }
    sigaction(signal, &(struct sigaction){ .sa_handler = SIG_DFL }, NULL);
    raise(signal);
}

static void run(void) {
    pthread_t all[1024];
    for (unsigned i = 0; i < threads; i++) pthread_create(&all[i], NULL, work, (void *)(uintptr_t)i);
    for (unsigned i = 0; i < threads; i++) pthread_join(all[i], NULL);
}

int main(int count, char **arguments) {
    sigaction(SIGTRAP, &(struct sigaction){ .sa_sigaction = outlive, .sa_flags = SA_SIGINFO | SA_RESTART }, NULL);
    const char *wanted = count > 1 ? arguments[1] : "false";
    if (count > 2) rounds = (unsigned)atoi(arguments[2]);
    if (count > 3) threads = (unsigned)atoi(arguments[3]);
    if (threads < 1 || threads > 1024) return 2;
    what = !strcmp(wanted, "true") ? TRUE : !strcmp(wanted, "words") ? WORDS : !strcmp(wanted, "lines") ? LINES : FALSE;
    if (!strcmp(wanted, "fork")) {
        /* Parent and child touch the same addresses, each in its own memory. */
        pid_t child = fork();
        if (child == 0) {
            for (unsigned i = 0; i < rounds; i++) take_lock();
            _exit(0);
        }
        for (unsigned i = 0; i < rounds; i++) take_lock();
        waitpid(child, NULL, 0);
        /* What is executed instead has other things there. */
        execlp("true", "true", (char *)NULL);
        return 1;
    }
    if (!strcmp(wanted, "late")) {
        /* Two objects; who waits for the second has some time to aim at it. */
        what = HEAP;
        for (volatile int i = 0; i < 2; i++) make_all();
        usleep(500000);
        run();
        return 0;
    }
    if (!strcmp(wanted, "heap")) {
        /* Where the object will lie is told before it is there, to who then joins and lets us go on. */
        what = HEAP;
        make_all();
        struct pair *told = made;
        free(told - 4);
        char address[32];
        int bytes = snprintf(address, sizeof address, "%p\n", (void *)told);
        if (write(1, address, (size_t)bytes) != bytes) return 4;
        raise(SIGSTOP);
        make_all();
        if (made != told) return 3;
        run();
        return 0;
    }
    if (!strcmp(wanted, "leave")) {
        /* The first thread ends before the others. */
        pthread_t other[2];
        threads = 2;
        for (unsigned i = 0; i < 2; i++) pthread_create(&other[i], NULL, work, (void *)(uintptr_t)i);
        pthread_exit(NULL);
    }
    if (!strcmp(wanted, "killed")) {
        run();
        raise(SIGKILL);
    }
    run();
    printf("done\n");
    return !strcmp(wanted, "seven") ? 7 : 0;
}
