/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * forward CPU,CPU PACKETS DELAYS FILE
 *
 * A DPDK forwarder without a network card. On the first CPU packets are made, put on a ring, and thrown away after they came back on
 * another; on the second each is handled: headers, flow, rules, route, checksums. Packets are numbered from 1; the numbers are the ids of
 * perftax's marks. DELAYS of them are delayed on purpose, 50 us to 2 ms each, in five ways in turn. FILE tells which: id, way, ns asked for,
 * ns that it took. The last line of the output: packets, and ns from the first's arrival to the last's departure.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_eth_ring.h>
#include <rte_ethdev.h>
#include <rte_ether.h>
#include <rte_hash.h>
#include <rte_ip.h>
#include <rte_jhash.h>
#include <rte_launch.h>
#include <rte_lpm.h>
#include <rte_mbuf.h>
#include <rte_udp.h>

#include "perftax_tag.h"

#define BURST        32
#define RING_PACKETS 8192 /* some 10 ms of work: whoever makes packets may be away so long */
#define BYTES        1408
#define FLOWS        32768
#define ROUTES       16384
#define RULES        2048
#define SHORTEST     50e3 /* ns */
#define LONGEST      2e6
#define ZEROES       (64u << 20)
#define FRESH        (64u << 20)

struct packet {
    struct rte_ether_hdr ether;
    struct rte_ipv4_hdr ip;
    struct rte_udp_hdr udp;
    uint64_t id;
    uint8_t body[];
} __rte_packed __rte_aligned(2);

struct flow {
    uint32_t source, destination;
    uint16_t from, to;
};

struct rule {
    uint32_t source, source_mask, destination, destination_mask;
};

struct delay {
    uint64_t id, asked, took;
    unsigned int way;
};

static struct rte_mempool *pool;
static uint16_t in, out;
static struct rte_lpm *routes;
static struct rte_hash *flows;
static struct rule rules[RULES];
static uint32_t scanned[ROUTES];
static uint64_t of_flow[FLOWS], of_hop[256], refused;
static uint64_t packets, delays, next, elapsed;
static struct delay *list;
static char *zeroes, *fresh;
static size_t touched;
static double zeroes_a_ns;
static int zero = -1, bell = -1;
static pid_t hog;
static volatile uint64_t *hog_ns;

static __rte_noreturn __rte_format_printf(1, 2) void die(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    fputs("forward: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(1);
}

static uint64_t now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* From 0 to 1, the same ones in every run. */
static double chance(void)
{
    static uint64_t state = 1;

    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (double)(state >> 11) * 0x1p-53;
}

/* The five ways. */

/* A table that is searched from its beginning, again and again. */
static __rte_noinline void scan_routes(uint64_t ns)
{
    uint64_t until = now() + ns;
    volatile uint32_t found = 0;

    do
        for (uint32_t i = 0; i < ROUTES; i++)
            if (scanned[i] == UINT32_MAX)
                found = i;
    while (now() < until);
    (void)found;
}

/* System calls that keep the kernel busy: most often one. */
static __rte_noinline void read_zeroes(uint64_t ns)
{
    uint64_t until = now() + ns, from;

    while ((from = now()) < until) {
        size_t wanted = (size_t)((double)(until - from) * zeroes_a_ns) + 4096;

        if (read(zero, zeroes, RTE_MIN(wanted, (size_t)ZEROES)) < 0)
            die("/dev/zero: %s", strerror(errno));
    }
}

/* Memory that is not there before it is touched. It is given back when the packet is done with. */
static __rte_noinline void touch_fresh(uint64_t ns)
{
    uint64_t until = now() + ns;

    for (touched = 0; touched < FRESH && now() < until; touched += 4096)
        *(volatile char *)(fresh + touched) = 1;
}

static __rte_noinline void sleep_shortly(uint64_t ns)
{
    struct timespec pause = { 0, (long)ns };

    nanosleep(&pause, 0);
}

/* Another process, which goes first, is woken on this CPU. */
static __rte_noinline void wake_hog(uint64_t ns)
{
    *hog_ns = ns;
    if (eventfd_write(bell, 1))
        die("cannot wake the other process: %s", strerror(errno));
}

static const struct {
    const char *name;
    void (*delay)(uint64_t ns);
} ways[] = {
    { "scan", scan_routes }, { "read", read_zeroes }, { "fault", touch_fresh }, { "sleep", sleep_shortly }, { "hog", wake_hog },
};

static void delay(struct delay *what)
{
    uint64_t from = now();

    ways[what->way].delay(what->asked);
    what->took = now() - from;
}

/* What the hog does: for each ring of the bell, keep the CPU for so long. */
static __rte_noreturn void be_hog(int cpu)
{
    struct sched_param first = { .sched_priority = 1 };
    cpu_set_t cpus;
    eventfd_t rung;

    CPU_ZERO(&cpus);
    CPU_SET(cpu, &cpus);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (sched_setaffinity(0, sizeof cpus, &cpus))
        die("CPU %d: %s. Name two that the machine has: forward 0,1 ...", cpu, strerror(errno));
    if (sched_setscheduler(0, SCHED_FIFO, &first))
        die("SCHED_FIFO: %s. Run it as root, or with CAP_SYS_NICE", strerror(errno));
    *hog_ns = 0;
    while (!eventfd_read(bell, &rung))
        for (uint64_t until = now() + *hog_ns; now() < until;)
            ;
    _exit(1);
}

static void start_hog(int cpu)
{
    int status;

    hog_ns = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    bell = eventfd(0, 0);
    if (hog_ns == MAP_FAILED || bell < 0)
        die("no shared memory or no eventfd: %s", strerror(errno));
    *hog_ns = 1;
    hog = fork();
    if (hog < 0)
        die("fork: %s", strerror(errno));
    if (!hog)
        be_hog(cpu);
    while (*hog_ns) {
        if (waitpid(hog, &status, WNOHANG) == hog)
            exit(1); /* it said why */
        usleep(1000);
    }
}

static void prepare_delays(void)
{
    uint64_t from;

    list = calloc(delays + 1, sizeof *list);
    zeroes = malloc(ZEROES);
    fresh = mmap(0, FRESH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    zero = open("/dev/zero", O_RDONLY);
    if (!list || !zeroes || fresh == MAP_FAILED || zero < 0)
        die("no memory, or no /dev/zero: %s", strerror(errno));
    madvise(fresh, FRESH, MADV_NOHUGEPAGE); /* a kernel without huge pages refuses, and needs not be told */
    for (uint64_t i = 0; i < delays; i++) {
        list[i].id = 1 + (uint64_t)(((double)i + chance()) * (double)packets / (double)delays);
        list[i].way = (unsigned int)(i % RTE_DIM(ways));
        list[i].asked = (uint64_t)(SHORTEST * exp(chance() * log(LONGEST / SHORTEST)));
    }
    /* Its pages are there from now on. */
    memset(zeroes, 1, ZEROES);
    from = now();
    if (read(zero, zeroes, ZEROES) != ZEROES)
        die("/dev/zero: %s", strerror(errno));
    zeroes_a_ns = ZEROES / (double)(now() - from);
}

static void prepare_tables(void)
{
    struct rte_lpm_config lpm = { .max_rules = ROUTES, .number_tbl8s = 256 };
    struct rte_hash_parameters hash = {
        .name = "flows", .entries = 2 * FLOWS, .key_len = sizeof(struct flow), .hash_func = rte_jhash, .socket_id = SOCKET_ID_ANY
    };

    routes = rte_lpm_create("routes", SOCKET_ID_ANY, &lpm);
    flows = rte_hash_create(&hash);
    if (!routes || !flows)
        die("no room for the tables: %s", rte_strerror(rte_errno));
    for (uint32_t i = 0; i < ROUTES; i++) {
        scanned[i] = RTE_IPV4(20, 0, 0, 0) + (i << 8);
        if (rte_lpm_add(routes, scanned[i], 24, i % 256))
            die("route %u cannot be added", i);
    }
    for (uint32_t i = 0; i < FLOWS; i++) {
        struct flow flow = { RTE_IPV4(10, 0, 0, 0) + i, RTE_IPV4(20, 0, 0, 0) + i * 61, 1024, 4789 };

        if (rte_hash_add_key_data(flows, &flow, &of_flow[i]))
            die("flow %u cannot be added", i);
    }
    /* None of them meets a packet, so that all are tried. */
    for (uint32_t i = 0; i < RULES; i++)
        rules[i] = (struct rule){ RTE_IPV4(172, 16, 0, 0) + (i << 8), 0xffffff00, RTE_IPV4(20, 0, 0, 0), 0xff000000 };
}

static void make_packet(struct rte_mbuf *mbuf, uint64_t id)
{
    uint32_t flow = (uint32_t)(id * 40503 % FLOWS);
    struct packet *packet;

    rte_pktmbuf_reset_headroom(mbuf);
    packet = rte_pktmbuf_mtod(mbuf, struct packet *);
    mbuf->data_len = BYTES;
    mbuf->pkt_len = BYTES;
    memset(packet, 0, sizeof *packet);
    packet->ether.ether_type = RTE_BE16(RTE_ETHER_TYPE_IPV4);
    packet->ip.version_ihl = RTE_IPV4_VHL_DEF;
    packet->ip.total_length = rte_cpu_to_be_16(BYTES - sizeof packet->ether);
    packet->ip.time_to_live = 64;
    packet->ip.next_proto_id = IPPROTO_UDP;
    packet->ip.src_addr = rte_cpu_to_be_32(RTE_IPV4(10, 0, 0, 0) + flow);
    packet->ip.dst_addr = rte_cpu_to_be_32(RTE_IPV4(20, 0, 0, 0) + flow * 61);
    packet->udp.src_port = RTE_BE16(1024);
    packet->udp.dst_port = RTE_BE16(4789);
    packet->udp.dgram_len = rte_cpu_to_be_16(BYTES - sizeof packet->ether - sizeof packet->ip);
    packet->id = id;
}

/* The work: whose flow it is, whether a rule is against it, where it goes, and its checksums. */
static bool handle(struct rte_mbuf *mbuf)
{
    struct packet *packet = rte_pktmbuf_mtod(mbuf, struct packet *);
    struct flow flow = { rte_be_to_cpu_32(packet->ip.src_addr), rte_be_to_cpu_32(packet->ip.dst_addr),
                         rte_be_to_cpu_16(packet->udp.src_port), rte_be_to_cpu_16(packet->udp.dst_port) };
    uint32_t hop;
    void *seen;

    if (packet->ether.ether_type != RTE_BE16(RTE_ETHER_TYPE_IPV4) || packet->ip.time_to_live < 2)
        return false;
    if (next < delays && list[next].id == packet->id)
        delay(&list[next++]);
    if (rte_hash_lookup_data(flows, &flow, &seen) < 0)
        return false;
    ++*(uint64_t *)seen;
    for (const struct rule *rule = rules; rule < rules + RULES; rule++)
        if ((flow.source & rule->source_mask) == rule->source && (flow.destination & rule->destination_mask) == rule->destination)
            return false;
    if (rte_lpm_lookup(routes, flow.destination, &hop))
        return false;
    of_hop[hop]++;
    packet->ether.dst_addr.addr_bytes[5] = (uint8_t)hop;
    packet->ip.time_to_live--;
    packet->ip.hdr_checksum = 0;
    packet->ip.hdr_checksum = rte_ipv4_cksum(&packet->ip);
    packet->udp.dgram_cksum = 0;
    packet->udp.dgram_cksum = rte_ipv4_udptcp_cksum(&packet->ip, &packet->udp);
    return true;
}

static int forward(void *unused)
{
    struct rte_mbuf *burst[BURST];
    uint64_t handled = 0, from = 0;

    (void)unused;
    while (handled < packets) {
        uint16_t n = rte_eth_rx_burst(in, 0, burst, BURST), sent = 0;

        if (n && !from)
            from = now();
        for (uint16_t i = 0; i < n; i++) {
            uint64_t id = rte_pktmbuf_mtod(burst[i], struct packet *)->id;

            perftax_begin(id);
            refused += !handle(burst[i]);
            perftax_end(id);
            if (touched) {
                madvise(fresh, touched, MADV_DONTNEED);
                touched = 0;
            }
        }
        handled += n;
        while (sent < n)
            sent += rte_eth_tx_burst(out, 0, burst + sent, n - sent);
    }
    elapsed = now() - from;
    return 0;
}

/* Makes packets as long as there is room for them, and takes them back. */
static void generate(void)
{
    struct rte_mbuf *burst[BURST], *back[BURST];
    uint64_t made = 0, returned = 0, sum = 0;
    uint16_t n = 0, sent = 0;

    while (returned < packets) {
        if (sent == n && made < packets) {
            n = (uint16_t)RTE_MIN(packets - made, (uint64_t)BURST);
            sent = 0;
            if (rte_pktmbuf_alloc_bulk(pool, burst, n))
                n = 0;
            for (uint16_t i = 0; i < n; i++)
                make_packet(burst[i], ++made);
        }
        if (sent < n)
            sent += rte_eth_tx_burst(in, 0, burst + sent, n - sent);
        for (uint16_t i = 0, got = rte_eth_rx_burst(out, 0, back, BURST); i < got; i++, returned++) {
            sum += rte_pktmbuf_mtod(back[i], struct packet *)->id;
            rte_pktmbuf_free(back[i]);
        }
    }
    if (sum != packets * (packets + 1) / 2 || refused)
        die("other packets came back than were sent, or %" PRIu64 " of them were refused", refused);
}

static uint16_t open_port(const char *name)
{
    struct rte_ring *ring = rte_ring_create(name, RING_PACKETS, SOCKET_ID_ANY, RING_F_SP_ENQ | RING_F_SC_DEQ);
    int port = ring ? rte_eth_from_ring(ring) : -1;
    struct rte_eth_conf plain = { 0 };

    if (port < 0 || rte_eth_dev_configure((uint16_t)port, 1, 1, &plain) ||
        rte_eth_rx_queue_setup((uint16_t)port, 0, RING_PACKETS, SOCKET_ID_ANY, 0, pool) ||
        rte_eth_tx_queue_setup((uint16_t)port, 0, RING_PACKETS, SOCKET_ID_ANY, 0) || rte_eth_dev_start((uint16_t)port))
        die("port %s cannot be made of a ring: %s", name, rte_strerror(rte_errno));
    return (uint16_t)port;
}

static void write_list(const char *path)
{
    FILE *file = fopen(path, "w");

    if (!file)
        die("%s: %s", path, strerror(errno));
    for (uint64_t i = 0; i < delays; i++)
        fprintf(file, "%" PRIu64 "\t%s\t%" PRIu64 "\t%" PRIu64 "\n", list[i].id, ways[list[i].way].name, list[i].asked, list[i].took);
    if (fclose(file))
        die("%s: %s", path, strerror(errno));
}

int main(int argc, char **argv)
{
    char lcores[64], *eal[] = { argv[0],     "--lcores",      lcores,         "--no-huge",       "-m",    "256",
                                "--no-pci", "--no-telemetry", "--no-shconf", "--log-level=error", NULL };
    int maker, worker;

    if (argc != 5 || sscanf(argv[1], "%d,%d", &maker, &worker) != 2 || maker == worker)
        die("usage: forward CPU,CPU PACKETS DELAYS FILE, with two CPUs: forward 0,1 1000000 100 delays.tsv");
    packets = strtoull(argv[2], 0, 10);
    delays = strtoull(argv[3], 0, 10);
    if (!packets || delays > packets)
        die("%s packets, %s delays: needs at least one packet, and as many as delays", argv[2], argv[3]);
    if (delays)
        start_hog(worker);
    snprintf(lcores, sizeof lcores, "0@%d,1@%d", maker, worker);
    if (rte_eal_init((int)RTE_DIM(eal) - 1, eal) < 0)
        die("DPDK does not start on CPUs %s: %s", argv[1], rte_strerror(rte_errno));
    pool = rte_pktmbuf_pool_create("packets", 4 * RING_PACKETS - 1, 256, 0, RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY);
    if (!pool)
        die("no memory for packets: %s", rte_strerror(rte_errno));
    in = open_port("in");
    out = open_port("out");
    prepare_tables();
    prepare_delays();
    if (rte_eal_remote_launch(forward, NULL, 1))
        die("the second CPU does not start");
    generate();
    rte_eal_mp_wait_lcore();
    if (hog) {
        kill(hog, SIGKILL);
        waitpid(hog, 0, 0);
    }
    write_list(argv[4]);
    printf("packets %" PRIu64 " ns %" PRIu64 "\n", packets, elapsed);
    return 0;
}
