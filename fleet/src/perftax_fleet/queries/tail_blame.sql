-- Where slow messages' extra time over the not-slow mean went: by service, cause and detail, or by host, too.
-- Slow are the messages with is_slow = 1; the not-slow mean is that of all hosts of the service. Details of one cause
-- share its extra time as they share its time, because the not-slow mean is known by cause only.
-- The interval (95 %) takes hosts as the unit, and the not-slow mean as exact; of one host there is none.
-- param service text = null: only this service
-- param by text = service: `service` for all hosts together, `host` for each
-- column service: the service
-- column host: the host, with by = host
-- column cause: what the time went to
-- column detail: whom it went to, where that is known
-- column slow_messages (count): slow messages of the service (or the host)
-- column slow_ns (ns): time of this cause and detail, a slow message
-- column usual_ns (ns): time of this cause (all details), a message that is not slow
-- column extra_ns (ns): extra time, a slow message
-- column extra_ns_low (ns): lower end
-- column extra_ns_high (ns): upper end
-- column share (share): of all extra time of the service's slow messages
-- text service host cause detail slow_messages slow_ns extra_ns share
WITH slow AS (
  SELECT service, host, recording, message
  FROM messages
  WHERE is_slow = 1 AND (:service IS NULL OR service = :service)
),
by_host AS (
  SELECT s.service, s.host, c.cause, c.detail, CAST(SUM(CAST(c.ns AS DECIMAL(38, 0))) AS DOUBLE) AS ns
  FROM causes c
  JOIN slow s ON s.recording = c.recording AND s.message = c.message
  WHERE c.message IS NOT NULL
  GROUP BY s.service, s.host, c.cause, c.detail
),
counts AS (
  SELECT service, host, CAST(COUNT(*) AS DOUBLE) AS n FROM slow GROUP BY service, host
),
totals AS (
  SELECT service, CASE WHEN :by = 'host' THEN host END AS part,
         SUM(n) AS n, SUM(n * n) AS n2, CAST(COUNT(*) AS DOUBLE) AS hosts
  FROM counts
  GROUP BY service, CASE WHEN :by = 'host' THEN host END
),
minutes AS (
  SELECT service, host, recording, minute_ns, revision, MAX(messages) AS messages
  FROM causes
  WHERE message IS NULL AND (:service IS NULL OR service = :service)
  GROUP BY service, host, recording, minute_ns, revision
),
usual_counts AS (
  SELECT service, CAST(SUM(CAST(messages AS DECIMAL(38, 0))) AS DOUBLE) AS n FROM minutes GROUP BY service
),
usual_times AS (
  SELECT service, cause, CAST(SUM(CAST(ns AS DECIMAL(38, 0))) AS DOUBLE) AS ns
  FROM causes
  WHERE message IS NULL AND (:service IS NULL OR service = :service)
  GROUP BY service, cause
),
-- Each host's time, and a row of none for each cause of messages that are not slow: slow messages may lack that cause.
every AS (
  SELECT b.service, CASE WHEN :by = 'host' THEN b.host END AS part, b.cause, b.detail, b.ns, c.n AS host_n,
         CAST(0 AS DOUBLE) AS usual_ns
  FROM by_host b
  JOIN counts c ON c.service = b.service AND c.host = b.host
  UNION ALL
  SELECT t.service, t.part, u.cause, CAST(NULL AS STRING) AS detail, CAST(0 AS DOUBLE) AS ns, CAST(0 AS DOUBLE) AS host_n,
         u.ns / NULLIF(k.n, 0E0) AS usual_ns
  FROM totals t
  JOIN usual_times u ON u.service = t.service
  JOIN usual_counts k ON k.service = t.service
),
joined AS (
  SELECT e.service, e.part, e.cause, e.detail, e.ns, e.host_n, e.usual_ns, t.n, t.n2, t.hosts,
         SUM(e.ns) OVER (PARTITION BY e.service, e.part, e.cause, e.detail) / t.n AS mean_ns
  FROM every e
  JOIN totals t ON t.service = e.service AND t.part IS NOT DISTINCT FROM e.part
),
-- How far each host's time is from the mean's, squared; hosts without the cause are as far as the mean itself.
means AS (
  SELECT service, part, cause, detail, MAX(n) AS n, MAX(n2) AS n2, MAX(hosts) AS hosts, MAX(mean_ns) AS slow_ns,
         MAX(usual_ns) AS usual_ns, SUM(POWER(ns - mean_ns * host_n, 2)) AS present, SUM(host_n * host_n) AS present_n2
  FROM joined
  GROUP BY service, part, cause, detail
),
shared AS (
  SELECT service, part, cause, detail, n, n2, hosts, slow_ns, present, present_n2,
         MAX(usual_ns) OVER (PARTITION BY service, part, cause) AS usual_ns,
         SUM(slow_ns) OVER (PARTITION BY service, part, cause) AS cause_ns
  FROM means
),
extra AS (
  SELECT service, part, cause, detail, n, n2, hosts, slow_ns, usual_ns, present, present_n2,
         slow_ns - usual_ns * COALESCE(slow_ns / NULLIF(cause_ns, 0E0), 1E0) AS extra_ns
  FROM shared
  WHERE slow_ns > 0 OR cause_ns = 0
),
told AS (
  SELECT service, part, cause, detail, n, slow_ns, usual_ns, extra_ns,
         extra_ns * n / NULLIF(SUM(extra_ns * n) OVER (PARTITION BY service), 0E0) AS share,
         CASE WHEN hosts > 1 THEN
           SQRT((hosts - 1) * (EXP(POWER(1.959963985E0 * (8 * hosts - 5) / (8 * hosts - 7), 2) / (hosts - 1)) - 1))
           * SQRT((present + POWER(slow_ns, 2) * GREATEST(n2 - present_n2, 0E0)) * hosts / (hosts - 1)) / n
         END AS half
  FROM extra
)
SELECT service, part AS host, cause, detail, CAST(n AS BIGINT) AS slow_messages, slow_ns, usual_ns, extra_ns,
       extra_ns - half AS extra_ns_low, extra_ns + half AS extra_ns_high, share
FROM told
ORDER BY service, extra_ns * n DESC, part NULLS LAST, cause, detail NULLS LAST
