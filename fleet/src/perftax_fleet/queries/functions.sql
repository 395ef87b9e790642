-- Which functions slow messages run more than the others, by their share of samples.
-- The interval (95 %) of the difference takes hosts as the unit. Of each service, the functions that differ most.
-- param service text = null: only this service
-- param top int = 20: how many functions of each service
-- column service: the service
-- column function: its name
-- column slow_samples (count): samples at slow messages
-- column other_samples (count): samples at the others
-- column slow_share (share): of the samples at slow messages
-- column other_share (share): of the samples at the others
-- column more (share): the difference
-- column more_low (share): lower end
-- column more_high (share): upper end
-- column hosts (count): hosts with samples
-- text service function slow_samples slow_share other_share more hosts
WITH by_host AS (
  SELECT service, host, function,
         SUM(CASE WHEN is_slow = 1 THEN CAST(samples AS DECIMAL(38, 0)) ELSE CAST(0 AS DECIMAL(38, 0)) END) AS x,
         SUM(CASE WHEN is_slow = 1 THEN CAST(0 AS DECIMAL(38, 0)) ELSE CAST(samples AS DECIMAL(38, 0)) END) AS y
  FROM profiles
  WHERE :service IS NULL OR service = :service
  GROUP BY service, host, function
),
hosts_n AS (
  SELECT service, host, CAST(SUM(x) AS DOUBLE) AS n, CAST(SUM(y) AS DOUBLE) AS m FROM by_host GROUP BY service, host
),
totals AS (
  SELECT service, SUM(n) AS n, SUM(m) AS m, CAST(COUNT(*) AS DOUBLE) AS hosts FROM hosts_n GROUP BY service
),
shares AS (
  SELECT b.service, b.function, SUM(b.x) AS x, SUM(b.y) AS y,
         CAST(SUM(b.x) AS DOUBLE) / NULLIF(MAX(t.n), 0E0) AS p, CAST(SUM(b.y) AS DOUBLE) / NULLIF(MAX(t.m), 0E0) AS q,
         MAX(t.n) AS n, MAX(t.m) AS m, MAX(t.hosts) AS hosts
  FROM by_host b
  JOIN totals t ON t.service = b.service
  GROUP BY b.service, b.function
),
placed AS (
  SELECT service, function, x, y, p, q, n, m, hosts,
         ROW_NUMBER() OVER (PARTITION BY service ORDER BY p - q DESC NULLS LAST, function) AS place
  FROM shares
),
chosen AS (
  SELECT service, function, x, y, p, q, n, m, hosts FROM placed WHERE place <= CAST(:top AS BIGINT)
),
-- How far each host's samples are from what the shares say, also on hosts without the function.
spread AS (
  SELECT c.service, c.function,
         SUM(POWER((CAST(COALESCE(b.x, CAST(0 AS DECIMAL(38, 0))) AS DOUBLE) - c.p * h.n) / c.n
                 - (CAST(COALESCE(b.y, CAST(0 AS DECIMAL(38, 0))) AS DOUBLE) - c.q * h.m) / c.m, 2)) AS squares
  FROM chosen c
  JOIN hosts_n h ON h.service = c.service
  LEFT JOIN by_host b ON b.service = c.service AND b.host = h.host AND b.function = c.function
  WHERE c.n > 0 AND c.m > 0
  GROUP BY c.service, c.function
),
widths AS (
  SELECT c.service, c.function, c.x, c.y, c.p, c.q, c.hosts,
         CASE WHEN c.hosts > 1 THEN
           SQRT(s.squares * c.hosts / (c.hosts - 1))
           * SQRT((c.hosts - 1) * (EXP(POWER(1.959963985E0 * (8 * c.hosts - 5) / (8 * c.hosts - 7), 2) / (c.hosts - 1)) - 1))
         END AS half
  FROM chosen c
  LEFT JOIN spread s ON s.service = c.service AND s.function = c.function
)
SELECT service, function, x AS slow_samples, y AS other_samples, p AS slow_share, q AS other_share,
       p - q AS more, p - q - half AS more_low, p - q + half AS more_high, CAST(hosts AS BIGINT) AS hosts
FROM widths
ORDER BY service, p - q DESC NULLS LAST, function
