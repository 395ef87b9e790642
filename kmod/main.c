// SPDX-License-Identifier: GPL-2.0
/*
 * perftax: what a PEBS record costs, apart from what perf does with it.
 * /dev/perftax: one session at a time, owned by the descriptor that started it.
 */
#include <linux/capability.h>
#include <linux/cpuhotplug.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/uaccess.h>

#include "perftax.h"

static DEFINE_MUTEX(session);
/* The descriptor that started it. */
static struct file *owner;
static enum cpuhp_state hotplug;

static int perftax_open(struct inode *inode, struct file *file)
{
	if (!perfmon_capable())
		return -EPERM;
	return nonseekable_open(inode, file);
}

static long start(struct file *file, const void __user *argument)
{
	struct perftax_start wanted;
	int error;

	if (copy_from_user(&wanted, argument, sizeof(wanted)))
		return -EFAULT;
	error = perftax_session_start(&wanted);
	if (!error)
		owner = file;
	return error;
}

static long read_core(void __user *argument)
{
	struct perftax_read read;
	int error;

	if (copy_from_user(&read, argument, sizeof(read)))
		return -EFAULT;
	error = perftax_session_read(&read);
	if (error)
		return error;
	return copy_to_user(argument, &read, sizeof(read)) ? -EFAULT : 0;
}

static long perftax_ioctl(struct file *file, unsigned int command, unsigned long argument)
{
	long result = -ENOTTY;

	mutex_lock(&session);
	switch (command) {
	case PERFTAX_IOC_START:
		result = start(file, (const void __user *)argument);
		break;
	case PERFTAX_IOC_STOP:
		result = owner == file ? 0 : -EBADF;
		if (!result)
			perftax_session_stop();
		break;
	case PERFTAX_IOC_READ:
		result = read_core((void __user *)argument);
		break;
	}
	mutex_unlock(&session);
	return result;
}

/* Also when its process has been killed. */
static int perftax_release(struct inode *inode, struct file *file)
{
	mutex_lock(&session);
	if (owner == file) {
		perftax_session_stop();
		owner = NULL;
	}
	mutex_unlock(&session);
	return 0;
}

static const struct file_operations perftax_operations = {
	.owner = THIS_MODULE,
	.open = perftax_open,
	.unlocked_ioctl = perftax_ioctl,
	.release = perftax_release,
};

static struct miscdevice perftax_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "perftax",
	.fops = &perftax_operations,
	.mode = 0600,
};

/* A CPU goes offline: its share ends, what it counted stays. */
static int perftax_cpu_down(unsigned int cpu)
{
	local_irq_disable();
	perftax_core_stop(NULL);
	local_irq_enable();
	return 0;
}

static int __init perftax_init(void)
{
	int error = perftax_session_probe();

	if (error)
		return error;
	error = cpuhp_setup_state_nocalls(CPUHP_AP_ONLINE_DYN, "perftax:online", NULL, perftax_cpu_down);
	if (error < 0)
		return error;
	hotplug = error;
	error = misc_register(&perftax_device);
	if (error)
		cpuhp_remove_state_nocalls(hotplug);
	return error;
}

static void __exit perftax_exit(void)
{
	misc_deregister(&perftax_device);
	cpuhp_remove_state_nocalls(hotplug);
	perftax_session_free();
}

module_init(perftax_init);
module_exit(perftax_exit);
MODULE_DESCRIPTION("PEBS with a buffer and periods of one's own, to measure what it costs");
MODULE_LICENSE("GPL");
