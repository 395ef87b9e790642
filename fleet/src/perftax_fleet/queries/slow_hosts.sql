-- Which hosts are slow: each host's 99.9 % quantile against its service's over all hosts, and by which cause.
-- A host counts as slow where the lower end of its quantile lies above the service's. The interval is that of the
-- rank, with messages as the unit; z = 4 keeps false alarms rare among thousands of hosts (3 in 100,000 each).
-- The cause is the one that the host's slow messages have most more of than all hosts' slow messages.
-- param service text = null: only this service
-- param top int = 20: how many hosts of each service
-- param z double = 4: half-width of the rank's interval in standard deviations
-- column service: the service
-- column host: the host
-- column messages (count): its messages
-- column p999_ns (ns): its 99.9 % quantile
-- column p999_ns_low (ns): lower end
-- column p999_ns_high (ns): upper end
-- column fleet_p999_ns (ns): the service's over all hosts
-- column ratio (number): the host's by the service's
-- column beyond (share): of its messages above the service's quantile; 0.1 % is usual
-- column is_slow (yes): 1 where the lower end lies above the service's
-- column cause: what its slow messages have more of
-- column detail: whom
-- column cause_extra_ns (ns): how much more, a slow message
-- text service host messages p999_ns ratio is_slow cause detail cause_extra_ns
WITH buckets AS (
  SELECT service, host, low_ns, MAX(high_ns) AS high_ns, SUM(CAST(messages AS DECIMAL(38, 0))) AS messages
  FROM histograms
  WHERE :service IS NULL OR service = :service
  GROUP BY service, host, low_ns
),
fleet_buckets AS (
  SELECT service, low_ns, MAX(high_ns) AS high_ns, SUM(messages) AS messages FROM buckets GROUP BY service, low_ns
),
fleet_ranked AS (
  SELECT service, low_ns, CAST(low_ns AS DOUBLE) + (CAST(high_ns AS DOUBLE) - CAST(low_ns AS DOUBLE) - 1) * 0.5 AS middle_ns,
         SUM(messages) OVER (PARTITION BY service ORDER BY low_ns
                             ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS upto,
         SUM(messages) OVER (PARTITION BY service) AS total
  FROM fleet_buckets
),
fleet AS (
  SELECT service, MIN(middle_ns) AS p999_ns, MIN(low_ns) AS low_ns
  FROM fleet_ranked
  WHERE upto * 1000 >= total * 999
  GROUP BY service
),
ranked AS (
  SELECT b.service, b.host, b.low_ns, b.messages,
         CAST(b.low_ns AS DOUBLE) + (CAST(b.high_ns AS DOUBLE) - CAST(b.low_ns AS DOUBLE) - 1) * 0.5 AS middle_ns,
         SUM(b.messages) OVER (PARTITION BY b.service, b.host ORDER BY b.low_ns
                               ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS upto,
         SUM(b.messages) OVER (PARTITION BY b.service, b.host) AS total
  FROM buckets b
),
placed AS (
  SELECT r.service, r.host, r.messages, r.middle_ns, r.low_ns, r.upto, r.total, f.p999_ns AS fleet_p999_ns,
         CASE WHEN r.low_ns > f.low_ns THEN r.messages ELSE CAST(0 AS DECIMAL(38, 0)) END AS beyond,
         0.999E0 * CAST(r.total AS DOUBLE) AS rank_999,
         CAST(:z AS DOUBLE) * SQRT(0.000999E0 * CAST(r.total AS DOUBLE)) AS reach
  FROM ranked r
  JOIN fleet f ON f.service = r.service
),
hosts_p999 AS (
  SELECT service, host, CAST(MAX(total) AS DECIMAL(38, 0)) AS messages,
         MIN(CASE WHEN upto * 1000 >= total * 999 THEN middle_ns END) AS p999_ns,
         MIN(CASE WHEN CAST(upto AS DOUBLE) >= rank_999 - reach THEN middle_ns END) AS p999_ns_low,
         COALESCE(MIN(CASE WHEN CAST(upto AS DOUBLE) >= rank_999 + reach THEN middle_ns END), MAX(middle_ns)) AS p999_ns_high,
         MAX(fleet_p999_ns) AS fleet_p999_ns,
         CAST(SUM(beyond) AS DOUBLE) / NULLIF(CAST(MAX(total) AS DOUBLE), 0E0) AS beyond
  FROM placed
  GROUP BY service, host
),
slow AS (
  SELECT service, host, recording, message
  FROM messages
  WHERE is_slow = 1 AND (:service IS NULL OR service = :service)
),
counts AS (
  SELECT service, host, n, SUM(n) OVER (PARTITION BY service) AS fleet_n
  FROM (SELECT service, host, CAST(COUNT(*) AS DOUBLE) AS n FROM slow GROUP BY service, host) each_host
),
host_causes AS (
  SELECT s.service, s.host, c.cause, c.detail, CAST(SUM(CAST(c.ns AS DECIMAL(38, 0))) AS DOUBLE) AS ns
  FROM causes c
  JOIN slow s ON s.recording = c.recording AND s.message = c.message
  WHERE c.message IS NOT NULL
  GROUP BY s.service, s.host, c.cause, c.detail
),
more AS (
  SELECT h.service, h.host, h.cause, h.detail,
         h.ns / c.n - SUM(h.ns) OVER (PARTITION BY h.service, h.cause, h.detail) / c.fleet_n AS extra_ns
  FROM host_causes h
  JOIN counts c ON c.service = h.service AND c.host = h.host
),
blamed AS (
  SELECT service, host, cause, detail, extra_ns,
         ROW_NUMBER() OVER (PARTITION BY service, host ORDER BY extra_ns DESC, cause, detail NULLS LAST) AS place
  FROM more
),
judged AS (
  SELECT h.service, h.host, h.messages, h.p999_ns, h.p999_ns_low, h.p999_ns_high, h.fleet_p999_ns,
         h.p999_ns / NULLIF(h.fleet_p999_ns, 0E0) AS ratio, h.beyond,
         CASE WHEN h.p999_ns_low > h.fleet_p999_ns THEN 1 ELSE 0 END AS is_slow,
         b.cause, b.detail, b.extra_ns AS cause_extra_ns,
         ROW_NUMBER() OVER (PARTITION BY h.service ORDER BY
           CASE WHEN h.p999_ns_low > h.fleet_p999_ns THEN 0 ELSE 1 END, h.p999_ns DESC, h.host) AS place
  FROM hosts_p999 h
  LEFT JOIN blamed b ON b.service = h.service AND b.host = h.host AND b.place = 1
)
SELECT service, host, messages, p999_ns, p999_ns_low, p999_ns_high, fleet_p999_ns, ratio, beyond, is_slow,
       cause, detail, cause_extra_ns
FROM judged
WHERE place <= CAST(:top AS BIGINT)
ORDER BY is_slow DESC, ratio DESC NULLS LAST, service, host
