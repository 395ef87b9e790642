-- What a rollout changed: quantiles of latency and mean time of each cause, before and after.
-- Before and after are two revisions, or what began before and from a moment on. The change is the mean over hosts of
-- what changed on each, and its interval (95 %) takes hosts as the unit: `same hosts` where at least two hosts have both
-- sides, else `other hosts` (Welch). Times of causes are per message, of all messages, slow or not.
-- param service text = null: only this service
-- param before text = null: revision before
-- param after text = null: revision after
-- param moment_ns int = null: instead of revisions: the moment, ns since 1970; minutes that begin before it are before
-- column service: the service
-- column what: p50, p99, p99.9, or a cause
-- column before_ns (ns): of all hosts together, before
-- column after_ns (ns): the same, after
-- column change_ns (ns): mean change a host
-- column change_ns_low (ns): lower end
-- column change_ns_high (ns): upper end
-- column hosts_before (count): hosts that have a before
-- column hosts_after (count): hosts that have an after
-- column compared: same hosts, or other hosts
-- text service what before_ns after_ns change_ns hosts_before hosts_after compared
WITH histogram_sides AS (
  SELECT service, host, low_ns, high_ns, messages,
         CASE WHEN :moment_ns IS NOT NULL THEN CASE WHEN minute_ns < :moment_ns THEN 'before' ELSE 'after' END
              WHEN revision = :before THEN 'before' WHEN revision = :after THEN 'after' END AS side
  FROM histograms
  WHERE :service IS NULL OR service = :service
),
-- A NULL host stands for all hosts together.
buckets AS (
  SELECT service, host, side, low_ns, MAX(high_ns) AS high_ns, SUM(CAST(messages AS DECIMAL(38, 0))) AS messages
  FROM histogram_sides
  WHERE side IS NOT NULL
  GROUP BY GROUPING SETS ((service, host, side, low_ns), (service, side, low_ns))
),
ranked AS (
  SELECT service, host, side,
         CAST(low_ns AS DOUBLE) + (CAST(high_ns AS DOUBLE) - CAST(low_ns AS DOUBLE) - 1) * 0.5 AS middle_ns,
         SUM(messages) OVER (PARTITION BY service, host, side ORDER BY low_ns
                             ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS upto,
         SUM(messages) OVER (PARTITION BY service, host, side) AS total
  FROM buckets
),
quantiles AS (
  SELECT service, host, side,
         MIN(CASE WHEN upto * 1000 >= total * 500 THEN middle_ns END) AS p50,
         MIN(CASE WHEN upto * 1000 >= total * 990 THEN middle_ns END) AS p99,
         MIN(CASE WHEN upto * 1000 >= total * 999 THEN middle_ns END) AS p999
  FROM ranked
  GROUP BY service, host, side
),
slow AS (
  SELECT service, host, recording, message,
         CASE WHEN :moment_ns IS NOT NULL THEN CASE WHEN minute_ns < :moment_ns THEN 'before' ELSE 'after' END
              WHEN revision = :before THEN 'before' WHEN revision = :after THEN 'after' END AS side
  FROM messages
  WHERE is_slow = 1 AND (:service IS NULL OR service = :service)
),
usual AS (
  SELECT service, host, recording, minute_ns, revision, cause, ns, messages,
         CASE WHEN :moment_ns IS NOT NULL THEN CASE WHEN minute_ns < :moment_ns THEN 'before' ELSE 'after' END
              WHEN revision = :before THEN 'before' WHEN revision = :after THEN 'after' END AS side
  FROM causes
  WHERE message IS NULL AND (:service IS NULL OR service = :service)
),
minutes AS (
  SELECT service, host, side, recording, minute_ns, revision, MAX(messages) AS messages
  FROM usual
  WHERE side IS NOT NULL
  GROUP BY service, host, side, recording, minute_ns, revision
),
counts AS (
  SELECT service, host, side, SUM(n) AS n
  FROM (
    SELECT service, host, side, CAST(messages AS DECIMAL(38, 0)) AS n FROM minutes
    UNION ALL
    SELECT service, host, side, CAST(1 AS DECIMAL(38, 0)) AS n FROM slow WHERE side IS NOT NULL
  ) each_count
  GROUP BY service, host, side
),
times AS (
  SELECT service, host, side, cause, SUM(ns) AS ns
  FROM (
    SELECT service, host, side, cause, CAST(ns AS DECIMAL(38, 0)) AS ns FROM usual WHERE side IS NOT NULL
    UNION ALL
    SELECT s.service, s.host, s.side, c.cause, CAST(c.ns AS DECIMAL(38, 0)) AS ns
    FROM causes c
    JOIN slow s ON s.recording = c.recording AND s.message = c.message
    WHERE c.message IS NOT NULL AND s.side IS NOT NULL
  ) each_time
  GROUP BY service, host, side, cause
),
-- A host without a cause has 0 of it.
host_times AS (
  SELECT c.service, c.host, c.side, k.cause, c.n, COALESCE(t.ns, CAST(0 AS DECIMAL(38, 0))) AS ns
  FROM counts c
  JOIN (SELECT DISTINCT service, cause FROM causes) k ON k.service = c.service
  LEFT JOIN times t ON t.service = c.service AND t.host = c.host AND t.side = c.side AND t.cause = k.cause
),
cause_means AS (
  SELECT service, host, side, cause, CAST(SUM(ns) AS DOUBLE) / NULLIF(CAST(SUM(n) AS DOUBLE), 0E0) AS value
  FROM host_times
  GROUP BY GROUPING SETS ((service, host, side, cause), (service, side, cause))
),
numbers AS (
  SELECT q.service, q.host, q.side, l.place, l.what,
         CASE WHEN l.place = 1 THEN q.p50 WHEN l.place = 2 THEN q.p99 ELSE q.p999 END AS value
  FROM quantiles q
  CROSS JOIN (SELECT 1 AS place, 'p50' AS what UNION ALL SELECT 2 AS place, 'p99' AS what
              UNION ALL SELECT 3 AS place, 'p99.9' AS what) l
  UNION ALL
  SELECT service, host, side, 4 AS place, cause AS what, value FROM cause_means
),
pairs AS (
  SELECT service, host, place, what,
         MAX(CASE WHEN side = 'before' THEN value END) AS b, MAX(CASE WHEN side = 'after' THEN value END) AS a
  FROM numbers
  GROUP BY service, host, place, what
),
moments AS (
  SELECT service, place, what,
         MAX(CASE WHEN host IS NULL THEN b END) AS before_ns, MAX(CASE WHEN host IS NULL THEN a END) AS after_ns,
         COUNT(CASE WHEN host IS NOT NULL THEN b END) AS n_b, COUNT(CASE WHEN host IS NOT NULL THEN a END) AS n_a,
         COUNT(CASE WHEN host IS NOT NULL THEN a - b END) AS n_p,
         AVG(CASE WHEN host IS NOT NULL THEN b END) AS mean_b, AVG(CASE WHEN host IS NOT NULL THEN a END) AS mean_a,
         AVG(CASE WHEN host IS NOT NULL THEN a - b END) AS mean_p,
         VAR_SAMP(CASE WHEN host IS NOT NULL THEN b END) AS var_b, VAR_SAMP(CASE WHEN host IS NOT NULL THEN a END) AS var_a,
         VAR_SAMP(CASE WHEN host IS NOT NULL THEN a - b END) AS var_p
  FROM pairs
  GROUP BY service, place, what
),
changes AS (
  SELECT service, place, what, before_ns, after_ns, n_b, n_a,
         CASE WHEN n_p >= 2 THEN mean_p ELSE mean_a - mean_b END AS change_ns,
         CASE WHEN n_p >= 2 THEN SQRT(var_p / CAST(n_p AS DOUBLE))
              WHEN n_a >= 2 AND n_b >= 2 THEN SQRT(var_a / CAST(n_a AS DOUBLE) + var_b / CAST(n_b AS DOUBLE)) END AS error,
         CAST(CASE WHEN n_p >= 2 THEN n_p - 1 WHEN n_a >= 2 AND n_b >= 2 THEN LEAST(n_a, n_b) - 1 END AS DOUBLE) AS df,
         CASE WHEN n_p >= 2 THEN 'same hosts' ELSE 'other hosts' END AS compared
  FROM moments
),
widths AS (
  SELECT service, place, what, before_ns, after_ns, n_b, n_a, change_ns, compared,
         error * SQRT(df * (EXP(POWER(1.959963985E0 * (8 * df + 3) / (8 * df + 1), 2) / df) - 1)) AS half
  FROM changes
)
SELECT service, what, before_ns, after_ns, change_ns, change_ns - half AS change_ns_low, change_ns + half AS change_ns_high,
       n_b AS hosts_before, n_a AS hosts_after, compared
FROM widths
ORDER BY service, place, ABS(change_ns) DESC NULLS LAST, what
