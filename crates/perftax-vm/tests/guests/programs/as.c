/* Runs a command as somebody else: as USER CAPABILITIES FILTER COMMAND...
 * USER is a number; CAPABILITIES a mask in hexadecimal that the command keeps, with no others; FILTER is what a seccomp filter has
 * perf_event_open(2) answer: 0 for no filter, or an errno. */
#define _GNU_SOURCE
#include <errno.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static void check(const char *what, long outcome)
{
	if (outcome < 0) {
		perror(what);
		exit(99);
	}
}

static void filter(int answer)
{
	struct sock_filter program[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_perf_event_open, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (answer & SECCOMP_RET_DATA)),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog all = { sizeof program / sizeof *program, program };
	check("seccomp", syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &all));
}

int main(int argc, char **argv)
{
	if (argc < 5) {
		fprintf(stderr, "as USER CAPABILITIES FILTER COMMAND...\n");
		return 99;
	}
	uid_t user = strtoul(argv[1], NULL, 10);
	unsigned long long kept = strtoull(argv[2], NULL, 16);
	int answer = atoi(argv[3]);
	if (answer)
		filter(answer);
	check("PR_SET_KEEPCAPS", prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0));
	check("setgroups", setgroups(0, NULL));
	check("setresgid", setresgid(user, user, user));
	check("setresuid", setresuid(user, user, user));
	if (user) {
		struct __user_cap_header_struct head = { _LINUX_CAPABILITY_VERSION_3, 0 };
		struct __user_cap_data_struct sets[2] = {
			{ (unsigned)kept, (unsigned)kept, (unsigned)kept },
			{ (unsigned)(kept >> 32), (unsigned)(kept >> 32), (unsigned)(kept >> 32) },
		};
		check("capset", syscall(SYS_capset, &head, sets));
		for (int capability = 0; capability <= CAP_LAST_CAP; capability++)
			if (kept >> capability & 1)
				check("ambient", prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, capability, 0, 0));
	}
	execvp(argv[4], argv + 4);
	perror(argv[4]);
	return 127;
}
