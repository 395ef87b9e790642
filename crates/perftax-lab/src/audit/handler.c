/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A signal handler that does nothing, for programs that have none: preloaded into what `perftax audit` runs with a signal to each sample. */
#include <signal.h>

static void nothing(int number) { (void)number; }

__attribute__((constructor)) static void install(void)
{
	struct sigaction action = { .sa_handler = nothing, .sa_flags = SA_RESTART };

	sigaction(SIGURG, &action, 0);
}
