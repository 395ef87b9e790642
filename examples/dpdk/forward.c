/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * forward CPU,CPU PACKETS DELAYS FILE
 *
 * A DPDK forwarder without a network card. On the first CPU packets are made, put on a ring, and thrown away after they came back on
 * another; on the second each is handled: headers, flow, rules, route, checksums. Packets are numbered from 1; the numbers are the ids of
 * perftax's marks. DELAYS of them are delayed on purpose, 50 us to 2 ms each, in five ways in turn. FILE tells which: id, way, ns asked for,
 * ns that it took. The last line of the output: packets, and ns from the first's arrival to the last's departure.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

#include "delay.h"
#include "perftax_tag.h"

#define BURST        32
#define RING_PACKETS 8192 /* some 10 ms of work: whoever makes packets may be away so long */
#define BYTES        1408
#define FLOWS        32768
#define ROUTES       16384
#define RULES        2048

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

static struct rte_mempool *pool;
static uint16_t in, out;
static struct rte_lpm *routes;
static struct rte_hash *flows;
static struct rule rules[RULES];
static uint64_t of_flow[FLOWS], of_hop[256], refused;
static uint64_t packets, elapsed;

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
        if (rte_lpm_add(routes, RTE_IPV4(20, 0, 0, 0) + (i << 8), 24, i % 256))
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
    delay_if_due(packet->id);
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
            delay_tidy();
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

int main(int argc, char **argv)
{
    char lcores[64], *eal[] = { argv[0],     "--lcores",      lcores,         "--no-huge",       "-m",    "256",
                                "--no-pci", "--no-telemetry", "--no-shconf", "--log-level=error", NULL };
    uint64_t delays;
    int maker, worker;

    if (argc != 5 || sscanf(argv[1], "%d,%d", &maker, &worker) != 2 || maker == worker)
        die("usage: forward CPU,CPU PACKETS DELAYS FILE, with two CPUs: forward 0,1 1000000 100 delays.tsv");
    packets = strtoull(argv[2], 0, 10);
    delays = strtoull(argv[3], 0, 10);
    if (!packets || delays > packets)
        die("%s packets, %s delays: needs at least one packet, and as many as delays", argv[2], argv[3]);
    delay_prepare(delays, packets, worker);
    snprintf(lcores, sizeof lcores, "0@%d,1@%d", maker, worker);
    if (rte_eal_init((int)RTE_DIM(eal) - 1, eal) < 0)
        die("DPDK does not start on CPUs %s: %s", argv[1], rte_strerror(rte_errno));
    pool = rte_pktmbuf_pool_create("packets", 4 * RING_PACKETS - 1, 256, 0, RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY);
    if (!pool)
        die("no memory for packets: %s", rte_strerror(rte_errno));
    in = open_port("in");
    out = open_port("out");
    prepare_tables();
    if (rte_eal_remote_launch(forward, NULL, 1))
        die("the second CPU does not start");
    generate();
    rte_eal_mp_wait_lcore();
    delay_end(argv[4]);
    printf("packets %" PRIu64 " ns %" PRIu64 "\n", packets, elapsed);
    return 0;
}
