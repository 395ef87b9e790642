-- What a sample costs, by CPU, kernel and hypervisor: the mean over machines, with how much they differ. Machines are the unit.
-- A machine is a fingerprint: hosts of one make, kernel and settings are one machine here. A host's days are combined to
-- one price, then a machine's hosts, then machines: each time by random effects (DerSimonian and Laird), so that many
-- days of one host weigh as one host. The interval is Student's t at one less than the machines; of one machine it is
-- that machine's own. Rows without an interval cannot be weighed: they are left out and counted.
-- param mechanism text = null: only this mechanism
-- param event text = null: only this event
-- param term text = null: only this term
-- column cpu: the CPU model
-- column kernel: the kernel
-- column virtualisation: the hypervisor; an emulated machine's times are its own
-- column mechanism: how samples are taken
-- column event: as perf names it
-- column term: alpha, or another part of the cost
-- column unit: of the price
-- column price (unit): mean over machines
-- column price_low (unit): lower end of its 95 % interval
-- column price_high (unit): upper end
-- column tau (unit): standard deviation from machine to machine; NULL of one machine
-- column machines (count): machines, by fingerprint
-- column hosts (count): hosts
-- column measured (count): calibrations
-- column no_interval (count): rows left out, because they have no interval
-- text cpu kernel virtualisation mechanism event term price tau machines hosts
WITH once AS (
  -- A calibration that several publications hold counts once.
  SELECT DISTINCT cpu, kernel, virtualisation, mechanism, event, term, unit, fingerprint, host, time_ns, value, low, high, confidence
  FROM prices
),
stated AS (
  SELECT cpu, kernel, virtualisation, mechanism, event, term, unit, fingerprint, host, value,
         -- The confidence's number of standard deviations (Abramowitz and Stegun 26.2.23).
         CASE WHEN confidence > 0 AND confidence < 1 THEN SQRT(-2 * LN((1 - confidence) * 0.5E0)) END AS u,
         (high - low) * 0.5E0 AS half
  FROM once
  WHERE (:mechanism IS NULL OR mechanism = :mechanism) AND (:event IS NULL OR event = :event)
    AND (:term IS NULL OR term = :term)
),
observed AS (
  SELECT cpu, kernel, virtualisation, mechanism, event, term, unit, fingerprint, host, value,
         half / (u - (2.515517E0 + 0.802853E0 * u + 0.010328E0 * u * u)
                     / (1 + 1.432788E0 * u + 0.189269E0 * u * u + 0.001308E0 * u * u * u)) AS se
  FROM stated
  WHERE half > 0 AND u > 0.1
),
unweighed AS (
  SELECT cpu, kernel, virtualisation, mechanism, event, term, unit, COUNT(*) AS no_interval
  FROM stated
  WHERE NOT COALESCE(half > 0 AND u > 0.1, FALSE)
  GROUP BY cpu, kernel, virtualisation, mechanism, event, term, unit
),
-- Days of a host under one fingerprint. Chains of windows instead of joins: an engine that computes a common table anew
-- for each use reads prices once.
day_w AS (
  SELECT cpu, kernel, virtualisation, mechanism, event, term, unit, fingerprint, host, value, se, 1 / (se * se) AS w,
         SUM(value / (se * se)) OVER (PARTITION BY cpu, kernel, virtualisation, mechanism, event, term, unit, fingerprint, host)
         / SUM(1 / (se * se)) OVER (PARTITION BY cpu, kernel, virtualisation, mechanism, event, term, unit, fingerprint, host) AS fixed
  FROM observed
),
day_q AS (
  SELECT cpu, kernel, virtualisation, mechanism, event, term, unit, fingerprint, host, value, se,
         SUM(w * POWER(value - fixed, 2)) OVER (PARTITION BY cpu, kernel, virtualisation, mechanism, event, term, unit, fingerprint, host) AS q,
         SUM(w) OVER (PARTITION BY cpu, kernel, virtualisation, mechanism, event, term, unit, fingerprint, host) AS s1,
         SUM(w * w) OVER (PARTITION BY cpu, kernel, virtualisation, mechanism, event, term, unit, fingerprint, host) AS s2,
         CAST(COUNT(*) OVER (PARTITION BY cpu, kernel, virtualisation, mechanism, event, term, unit, fingerprint, host) AS DOUBLE) AS n
  FROM day_w
),
day_t AS (
  SELECT cpu, kernel, virtualisation, mechanism, event, term, unit, fingerprint, host, value, se, n,
         CASE WHEN n > 1 THEN GREATEST((q - (n - 1)) / (s1 - s2 / s1), 0E0) ELSE 0E0 END AS tau2
  FROM day_q
),
by_host AS (
  SELECT cpu, kernel, virtualisation, mechanism, event, term, unit, fingerprint, host, MAX(n) AS measured, SUM(value / (se * se + tau2)) / SUM(1 / (se * se + tau2)) AS value,
         SQRT(1 / SUM(1 / (se * se + tau2))) AS se
  FROM day_t
  GROUP BY cpu, kernel, virtualisation, mechanism, event, term, unit, fingerprint, host
),
-- Hosts of one fingerprint.
host_w AS (
  SELECT cpu, kernel, virtualisation, mechanism, event, term, unit, fingerprint, measured, value, se, 1 / (se * se) AS w,
         SUM(value / (se * se)) OVER (PARTITION BY cpu, kernel, virtualisation, mechanism, event, term, unit, fingerprint)
         / SUM(1 / (se * se)) OVER (PARTITION BY cpu, kernel, virtualisation, mechanism, event, term, unit, fingerprint) AS fixed
  FROM by_host
),
host_q AS (
  SELECT cpu, kernel, virtualisation, mechanism, event, term, unit, fingerprint, measured, value, se,
         SUM(w * POWER(value - fixed, 2)) OVER (PARTITION BY cpu, kernel, virtualisation, mechanism, event, term, unit, fingerprint) AS q,
         SUM(w) OVER (PARTITION BY cpu, kernel, virtualisation, mechanism, event, term, unit, fingerprint) AS s1,
         SUM(w * w) OVER (PARTITION BY cpu, kernel, virtualisation, mechanism, event, term, unit, fingerprint) AS s2,
         CAST(COUNT(*) OVER (PARTITION BY cpu, kernel, virtualisation, mechanism, event, term, unit, fingerprint) AS DOUBLE) AS n
  FROM host_w
),
host_t AS (
  SELECT cpu, kernel, virtualisation, mechanism, event, term, unit, fingerprint, measured, value, se, n,
         CASE WHEN n > 1 THEN GREATEST((q - (n - 1)) / (s1 - s2 / s1), 0E0) ELSE 0E0 END AS tau2
  FROM host_q
),
by_machine AS (
  SELECT cpu, kernel, virtualisation, mechanism, event, term, unit, fingerprint, MAX(n) AS hosts, SUM(measured) AS measured,
         SUM(value / (se * se + tau2)) / SUM(1 / (se * se + tau2)) AS value,
         SQRT(1 / SUM(1 / (se * se + tau2))) AS se
  FROM host_t
  GROUP BY cpu, kernel, virtualisation, mechanism, event, term, unit, fingerprint
),
-- Machines of one CPU and kernel.
machine_w AS (
  SELECT cpu, kernel, virtualisation, mechanism, event, term, unit, hosts, measured, value, se, 1 / (se * se) AS w,
         SUM(value / (se * se)) OVER (PARTITION BY cpu, kernel, virtualisation, mechanism, event, term, unit)
         / SUM(1 / (se * se)) OVER (PARTITION BY cpu, kernel, virtualisation, mechanism, event, term, unit) AS fixed
  FROM by_machine
),
machine_q AS (
  SELECT cpu, kernel, virtualisation, mechanism, event, term, unit, hosts, measured, value, se,
         SUM(w * POWER(value - fixed, 2)) OVER (PARTITION BY cpu, kernel, virtualisation, mechanism, event, term, unit) AS q,
         SUM(w) OVER (PARTITION BY cpu, kernel, virtualisation, mechanism, event, term, unit) AS s1,
         SUM(w * w) OVER (PARTITION BY cpu, kernel, virtualisation, mechanism, event, term, unit) AS s2,
         CAST(COUNT(*) OVER (PARTITION BY cpu, kernel, virtualisation, mechanism, event, term, unit) AS DOUBLE) AS n
  FROM machine_w
),
machine_t AS (
  SELECT cpu, kernel, virtualisation, mechanism, event, term, unit, hosts, measured, value, se, n,
         CASE WHEN n > 1 THEN GREATEST((q - (n - 1)) / (s1 - s2 / s1), 0E0) ELSE 0E0 END AS tau2
  FROM machine_q
),
pooled AS (
  SELECT cpu, kernel, virtualisation, mechanism, event, term, unit, MAX(n) AS n, MAX(tau2) AS tau2, SUM(hosts) AS hosts, SUM(measured) AS measured,
         SUM(value / (se * se + tau2)) / SUM(1 / (se * se + tau2)) AS price,
         SQRT(1 / SUM(1 / (se * se + tau2))) AS se
  FROM machine_t
  GROUP BY cpu, kernel, virtualisation, mechanism, event, term, unit
),
widths AS (
  SELECT cpu, kernel, virtualisation, mechanism, event, term, unit, n, tau2, hosts, measured, price,
         se * CASE WHEN n > 1 THEN
           SQRT((n - 1) * (EXP(POWER(1.959963985E0 * (8 * n - 5) / (8 * n - 7), 2) / (n - 1)) - 1)) ELSE 1.959963985E0 END AS half
  FROM pooled
)
SELECT w.cpu, w.kernel, w.virtualisation, w.mechanism, w.event, w.term, w.unit, w.price, w.price - w.half AS price_low,
       w.price + w.half AS price_high, CASE WHEN w.n > 1 THEN SQRT(w.tau2) END AS tau,
       CAST(w.n AS BIGINT) AS machines, CAST(w.hosts AS BIGINT) AS hosts, CAST(w.measured AS BIGINT) AS measured,
       COALESCE(u.no_interval, 0) AS no_interval
FROM widths w
LEFT JOIN unweighed u ON u.cpu = w.cpu AND u.kernel = w.kernel AND u.virtualisation = w.virtualisation
                     AND u.mechanism = w.mechanism AND u.event = w.event
                     AND u.term = w.term AND u.unit = w.unit
ORDER BY w.mechanism, w.event, w.term, w.unit, w.cpu, w.kernel, w.virtualisation
