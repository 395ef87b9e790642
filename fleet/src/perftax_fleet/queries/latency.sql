-- How long messages take, by service: quantiles of the merged histograms of all messages.
-- A quantile is the middle of the bucket that holds the message of that rank: within 0.4 % of the message's latency.
-- param service text = null: only this service
-- param by text = service: one row for each service, or for each `revision`, `date` or `host` of it
-- column service: the service
-- column part: the revision, date or host, where `by` asks for it
-- column hosts (count): hosts that published
-- column messages (count): messages
-- column p50_ns (ns): half of the messages take less
-- column p90_ns (ns): 90 %
-- column p99_ns (ns): 99 %
-- column p999_ns (ns): 99.9 %
-- column p9999_ns (ns): 99.99 %
-- column max_ns (ns): the slowest message's bucket, its upper end
-- text service part hosts messages p50_ns p90_ns p99_ns p999_ns p9999_ns max_ns
WITH chosen AS (
  SELECT service,
         CASE WHEN :by = 'revision' THEN revision
              WHEN :by = 'date' THEN CAST(date AS STRING)
              WHEN :by = 'host' THEN host
         END AS part,
         host, low_ns, high_ns, messages
  FROM histograms
  WHERE :service IS NULL OR service = :service
),
buckets AS (
  SELECT service, part, low_ns, MAX(high_ns) AS high_ns, SUM(CAST(messages AS DECIMAL(38, 0))) AS messages
  FROM chosen
  GROUP BY service, part, low_ns
),
ranked AS (
  SELECT service, part, low_ns, high_ns, messages,
         CAST(low_ns AS DOUBLE) + (CAST(high_ns AS DOUBLE) - CAST(low_ns AS DOUBLE) - 1) * 0.5 AS middle_ns,
         SUM(messages) OVER (PARTITION BY service, part ORDER BY low_ns
                             ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS upto,
         SUM(messages) OVER (PARTITION BY service, part) AS total
  FROM buckets
),
sources AS (
  SELECT service, part, COUNT(DISTINCT host) AS hosts FROM chosen GROUP BY service, part
)
SELECT r.service, r.part, MAX(s.hosts) AS hosts, SUM(r.messages) AS messages,
       MIN(CASE WHEN upto * 10000 >= total * 5000 THEN middle_ns END) AS p50_ns,
       MIN(CASE WHEN upto * 10000 >= total * 9000 THEN middle_ns END) AS p90_ns,
       MIN(CASE WHEN upto * 10000 >= total * 9900 THEN middle_ns END) AS p99_ns,
       MIN(CASE WHEN upto * 10000 >= total * 9990 THEN middle_ns END) AS p999_ns,
       MIN(CASE WHEN upto * 10000 >= total * 9999 THEN middle_ns END) AS p9999_ns,
       MAX(high_ns) AS max_ns
FROM ranked r
JOIN sources s ON s.service = r.service AND s.part IS NOT DISTINCT FROM r.part
GROUP BY r.service, r.part
ORDER BY r.service, r.part NULLS LAST
