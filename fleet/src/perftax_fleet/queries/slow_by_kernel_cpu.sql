-- Which kernel, CPU or mitigations are slow: their hosts' latencies against those of the service's other hosts.
-- Quantiles are of merged histograms. The ratio is of geometric means of the hosts' 99 % quantiles; its interval (95 %)
-- takes hosts as the unit.
-- The cause is the one that the group's slow messages have most more of than the service's other slow messages.
-- param service text = null: only this service
-- param by text = all: `kernel`, `cpu` or `mitigations` alone, or `all` for each combination
-- column service: the service
-- column kernel: the kernel
-- column cpu: the CPU model
-- column mitigations: the mitigations in force
-- column hosts (count): hosts of the group
-- column messages (count): their messages
-- column p50_ns (ns): of the merged histograms
-- column p99_ns (ns): of the merged histograms
-- column p999_ns (ns): of the merged histograms
-- column ratio (number): the hosts' 99 % quantile by that of the service's other hosts
-- column ratio_low (number): lower end
-- column ratio_high (number): upper end
-- column cause: what their slow messages have more of
-- column detail: whom
-- column cause_extra_ns (ns): how much more, a slow message
-- text service kernel cpu hosts p99_ns p999_ns ratio cause detail cause_extra_ns
WITH machines AS (
  SELECT host, recording,
         MAX(CASE WHEN :by IN ('all', 'kernel') THEN kernel END) AS kernel,
         MAX(CASE WHEN :by IN ('all', 'cpu') THEN cpu END) AS cpu,
         MAX(CASE WHEN :by IN ('all', 'mitigations') THEN mitigations END) AS mitigations
  FROM hosts
  GROUP BY host, recording
),
host_buckets AS (
  SELECT h.service, m.kernel, m.cpu, m.mitigations, h.host, h.low_ns, MAX(h.high_ns) AS high_ns,
         SUM(CAST(h.messages AS DECIMAL(38, 0))) AS messages
  FROM histograms h
  LEFT JOIN machines m ON m.recording = h.recording AND m.host = h.host
  WHERE :service IS NULL OR h.service = :service
  GROUP BY h.service, m.kernel, m.cpu, m.mitigations, h.host, h.low_ns
),
buckets AS (
  SELECT service, kernel, cpu, mitigations, low_ns, MAX(high_ns) AS high_ns, SUM(messages) AS messages
  FROM host_buckets
  GROUP BY service, kernel, cpu, mitigations, low_ns
),
ranked AS (
  SELECT service, kernel, cpu, mitigations, messages,
         CAST(low_ns AS DOUBLE) + (CAST(high_ns AS DOUBLE) - CAST(low_ns AS DOUBLE) - 1) * 0.5 AS middle_ns,
         SUM(messages) OVER (PARTITION BY service, kernel, cpu, mitigations ORDER BY low_ns
                             ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS upto,
         SUM(messages) OVER (PARTITION BY service, kernel, cpu, mitigations) AS total
  FROM buckets
),
merged AS (
  SELECT service, kernel, cpu, mitigations, SUM(messages) AS messages,
         MIN(CASE WHEN upto * 1000 >= total * 500 THEN middle_ns END) AS p50_ns,
         MIN(CASE WHEN upto * 1000 >= total * 990 THEN middle_ns END) AS p99_ns,
         MIN(CASE WHEN upto * 1000 >= total * 999 THEN middle_ns END) AS p999_ns
  FROM ranked
  GROUP BY service, kernel, cpu, mitigations
),
host_ranked AS (
  SELECT service, kernel, cpu, mitigations, host,
         CAST(low_ns AS DOUBLE) + (CAST(high_ns AS DOUBLE) - CAST(low_ns AS DOUBLE) - 1) * 0.5 AS middle_ns,
         SUM(messages) OVER (PARTITION BY service, kernel, cpu, mitigations, host ORDER BY low_ns
                             ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS upto,
         SUM(messages) OVER (PARTITION BY service, kernel, cpu, mitigations, host) AS total
  FROM host_buckets
),
host_p99 AS (
  SELECT service, kernel, cpu, mitigations, host, LN(GREATEST(MIN(middle_ns), 0.5E0)) AS y
  FROM host_ranked
  WHERE upto * 100 >= total * 99
  GROUP BY service, kernel, cpu, mitigations, host
),
-- Measured from the service's mean, so that the others' sums are exact enough as all less the group.
centred AS (
  SELECT service, kernel, cpu, mitigations, host, y - AVG(y) OVER (PARTITION BY service) AS y FROM host_p99
),
sums AS (
  SELECT service, kernel, cpu, mitigations, CAST(COUNT(*) AS DOUBLE) AS n, SUM(y) AS s, SUM(y * y) AS q
  FROM centred
  GROUP BY service, kernel, cpu, mitigations
),
against AS (
  SELECT service, kernel, cpu, mitigations, n, s, q,
         SUM(n) OVER (PARTITION BY service) - n AS n_o,
         SUM(s) OVER (PARTITION BY service) - s AS s_o,
         SUM(q) OVER (PARTITION BY service) - q AS q_o
  FROM sums
),
ratios AS (
  SELECT service, kernel, cpu, mitigations, n,
         s / n - s_o / NULLIF(n_o, 0E0) AS difference,
         CASE WHEN n > 1 AND n_o > 1 THEN
           SQRT(GREATEST(q - s * s / n, 0E0) / (n - 1) / n + GREATEST(q_o - s_o * s_o / n_o, 0E0) / (n_o - 1) / n_o)
         END AS error,
         LEAST(n, n_o) - 1 AS df
  FROM against
),
slow AS (
  SELECT s.service, m.kernel, m.cpu, m.mitigations, s.recording, s.message
  FROM messages s
  LEFT JOIN machines m ON m.recording = s.recording AND m.host = s.host
  WHERE s.is_slow = 1 AND (:service IS NULL OR s.service = :service)
),
counts AS (
  SELECT service, kernel, cpu, mitigations, CAST(COUNT(*) AS DOUBLE) AS n
  FROM slow
  GROUP BY service, kernel, cpu, mitigations
),
counted AS (
  SELECT service, kernel, cpu, mitigations, n, SUM(n) OVER (PARTITION BY service) - n AS n_o FROM counts
),
group_causes AS (
  SELECT s.service, s.kernel, s.cpu, s.mitigations, c.cause, c.detail,
         CAST(SUM(CAST(c.ns AS DECIMAL(38, 0))) AS DOUBLE) AS ns
  FROM causes c
  JOIN slow s ON s.recording = c.recording AND s.message = c.message
  WHERE c.message IS NOT NULL
  GROUP BY s.service, s.kernel, s.cpu, s.mitigations, c.cause, c.detail
),
against_causes AS (
  SELECT service, kernel, cpu, mitigations, cause, detail, ns,
         SUM(ns) OVER (PARTITION BY service, cause, detail) - ns AS ns_o
  FROM group_causes
),
blamed AS (
  SELECT g.service, g.kernel, g.cpu, g.mitigations, g.cause, g.detail, g.ns / c.n - g.ns_o / NULLIF(c.n_o, 0E0) AS extra_ns,
         ROW_NUMBER() OVER (PARTITION BY g.service, g.kernel, g.cpu, g.mitigations
                            ORDER BY g.ns / c.n - g.ns_o / NULLIF(c.n_o, 0E0) DESC NULLS LAST, g.cause, g.detail NULLS LAST) AS place
  FROM against_causes g
  JOIN counted c ON c.service = g.service AND c.kernel IS NOT DISTINCT FROM g.kernel
                AND c.cpu IS NOT DISTINCT FROM g.cpu AND c.mitigations IS NOT DISTINCT FROM g.mitigations
)
SELECT m.service, m.kernel, m.cpu, m.mitigations, CAST(r.n AS BIGINT) AS hosts, m.messages, m.p50_ns, m.p99_ns, m.p999_ns,
       EXP(r.difference) AS ratio,
       EXP(r.difference - r.error * SQRT(r.df * (EXP(POWER(1.959963985E0 * (8 * r.df + 3) / (8 * r.df + 1), 2)
           / NULLIF(r.df, 0E0)) - 1))) AS ratio_low,
       EXP(r.difference + r.error * SQRT(r.df * (EXP(POWER(1.959963985E0 * (8 * r.df + 3) / (8 * r.df + 1), 2)
           / NULLIF(r.df, 0E0)) - 1))) AS ratio_high,
       b.cause, b.detail, b.extra_ns AS cause_extra_ns
FROM merged m
JOIN ratios r ON r.service = m.service AND r.kernel IS NOT DISTINCT FROM m.kernel
             AND r.cpu IS NOT DISTINCT FROM m.cpu AND r.mitigations IS NOT DISTINCT FROM m.mitigations
LEFT JOIN blamed b ON b.service = m.service AND b.kernel IS NOT DISTINCT FROM m.kernel AND b.place = 1
                  AND b.cpu IS NOT DISTINCT FROM m.cpu AND b.mitigations IS NOT DISTINCT FROM m.mitigations
ORDER BY m.service, ratio DESC NULLS LAST, m.kernel NULLS LAST, m.cpu NULLS LAST, m.mitigations NULLS LAST
