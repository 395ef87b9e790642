// SPDX-License-Identifier: GPL-2.0
/*
 * perftax: what a PEBS record costs, apart from what perf does with it.
 * /dev/perftax: one session at a time, owned by the descriptor that started it.
 */
#include <linux/capability.h>
#include <linux/cpuhotplug.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/poll.h>
#include <linux/suspend.h>
#include <linux/uaccess.h>

#include "perftax.h"

/* Of the session, its rings and its owner. */
static DEFINE_MUTEX(lock);
/* The descriptor that started it. */
static struct file *owner;
/* From a suspend's preparation to its end, or that of its failure. */
static bool suspending;
static enum cpuhp_state hotplug;

static int perftax_open(struct inode *inode, struct file *file)
{
	if (!perfmon_capable())
		return -EPERM;
	return nonseekable_open(inode, file);
}

/* Copies a structure, which begins with its version, and checks that. */
static int take(void *structure, const void __user *argument, size_t bytes)
{
	if (copy_from_user(structure, argument, bytes))
		return -EFAULT;
	return *(u32 *)structure == PERFTAX_VERSION ? 0 : -EPROTO;
}

static long start(struct file *file, const void __user *argument)
{
	struct perftax_start wanted;
	int error;

	error = take(&wanted, argument, sizeof(wanted));
	if (error)
		return error;
	mutex_lock(&lock);
	error = suspending ? -EBUSY : perftax_session_start(&wanted, file);
	if (!error)
		WRITE_ONCE(owner, file);
	mutex_unlock(&lock);
	return error;
}

static long stop(struct file *file)
{
	long error = -EBADF;

	mutex_lock(&lock);
	if (owner == file) {
		perftax_session_stop(0);
		error = 0;
	}
	mutex_unlock(&lock);
	return error;
}

static long read_core(void __user *argument)
{
	struct perftax_read read;
	int error;

	error = take(&read, argument, sizeof(read));
	if (error)
		return error;
	mutex_lock(&lock);
	error = perftax_session_read(&read);
	mutex_unlock(&lock);
	if (error)
		return error;
	return copy_to_user(argument, &read, sizeof(read)) ? -EFAULT : 0;
}

static long inform(void __user *argument)
{
	struct perftax_info info = {
		.version = PERFTAX_VERSION,
		.own_buffer = perftax_pmu_own_buffer(),
		.counters = perftax_pmu.general,
		.counter_bits = perftax_pmu.counter_bits,
		.record_format = perftax_pmu.format,
		.record_bytes = perftax_pmu_record_bytes(0),
		.adaptive = perftax_pmu.adaptive,
	};

	return copy_to_user(argument, &info, sizeof(info)) ? -EFAULT : 0;
}

static long work(void __user *argument)
{
	struct perftax_work work;
	int error;

	error = take(&work, argument, sizeof(work));
	if (!error)
		error = perftax_work(&work);
	if (error)
		return error;
	return copy_to_user(argument, &work, sizeof(work)) ? -EFAULT : 0;
}

static long perftax_ioctl(struct file *file, unsigned int command, unsigned long argument)
{
	void __user *user = (void __user *)argument;

	switch (command) {
	case PERFTAX_IOC_START:
		return start(file, user);
	case PERFTAX_IOC_STOP:
		return stop(file);
	case PERFTAX_IOC_READ:
		return read_core(user);
	case PERFTAX_IOC_INFO:
		return inform(user);
	case PERFTAX_IOC_WORK:
		return work(user);
	}
	return -ENOTTY;
}

/*
 * The ring of the CPU that the offset names. Not under the lock: it is held while
 * the CPUs are, and a CPU that comes or goes may wait for who holds mmap_lock.
 */
static int perftax_mmap(struct file *file, struct vm_area_struct *vma)
{
	unsigned int shift = ilog2(PERFTAX_RING(1)) - PAGE_SHIFT;
	unsigned long cpu = vma->vm_pgoff >> shift;

	if (vma->vm_pgoff & (BIT(shift) - 1))
		return -EINVAL;
	if (READ_ONCE(owner) != file)
		return -EBADF;
	if (cpu >= nr_cpu_ids || !cpu_possible(cpu))
		return -ENXIO;
	return perftax_ring_map(&per_cpu(perftax_cores, cpu).out, file, vma);
}

/* Readable while any ring holds a record. */
static __poll_t perftax_poll(struct file *file, poll_table *table)
{
	__poll_t ready = 0;
	int cpu;

	poll_wait(file, &perftax_readers, table);
	mutex_lock(&lock);
	if (owner != file)
		ready = EPOLLERR;
	else
		for_each_possible_cpu(cpu)
			if (perftax_ring_waits(&per_cpu(perftax_cores, cpu).out))
				ready |= EPOLLIN | EPOLLRDNORM;
	mutex_unlock(&lock);
	return ready;
}

/* Also when its process has been killed. */
static int perftax_release(struct inode *inode, struct file *file)
{
	mutex_lock(&lock);
	if (owner == file) {
		perftax_session_stop(0);
		perftax_session_free();
		WRITE_ONCE(owner, NULL);
	}
	mutex_unlock(&lock);
	return 0;
}

static const struct file_operations perftax_operations = {
	.owner = THIS_MODULE,
	.open = perftax_open,
	.unlocked_ioctl = perftax_ioctl,
	.mmap = perftax_mmap,
	.poll = perftax_poll,
	.release = perftax_release,
};

static struct miscdevice perftax_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "perftax",
	.fops = &perftax_operations,
	.mode = 0666,	/* open() asks for the capability */
};

static int perftax_cpu_down(unsigned int cpu)
{
	local_irq_disable();
	perftax_session_cpu_down();
	local_irq_enable();
	return 0;
}

/* The counters do not survive it: the session ends before, and says so. */
static int perftax_suspend(struct notifier_block *block, unsigned long event, void *unused)
{
	mutex_lock(&lock);
	suspending = event == PM_SUSPEND_PREPARE || event == PM_HIBERNATION_PREPARE;
	if (suspending)
		perftax_session_stop(PERFTAX_READ_SUSPENDED);
	mutex_unlock(&lock);
	return NOTIFY_OK;
}

static struct notifier_block suspend_notifier = {
	.notifier_call = perftax_suspend,
};

static int __init perftax_init(void)
{
	int error = perftax_pmu_probe();

	if (error)
		return error;
	error = cpuhp_setup_state_nocalls(CPUHP_AP_ONLINE_DYN, "perftax:online",
					  NULL, perftax_cpu_down);
	if (error < 0)
		return error;
	hotplug = error;
	error = register_pm_notifier(&suspend_notifier);
	if (error)
		goto remove;
	error = misc_register(&perftax_device);
	if (error)
		goto unregister;
	return 0;

unregister:
	unregister_pm_notifier(&suspend_notifier);
remove:
	cpuhp_remove_state_nocalls(hotplug);
	return error;
}

static void __exit perftax_exit(void)
{
	misc_deregister(&perftax_device);
	unregister_pm_notifier(&suspend_notifier);
	cpuhp_remove_state_nocalls(hotplug);
}

module_init(perftax_init);
module_exit(perftax_exit);
MODULE_DESCRIPTION("PEBS with a buffer and periods of one's own, to measure what it costs");
MODULE_LICENSE("GPL");
