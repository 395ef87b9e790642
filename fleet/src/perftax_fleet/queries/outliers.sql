-- Which machines' prices depart from what the others of their CPU model predict, and in what those machines differ.
-- A machine is here a host under one fingerprint, whose days are combined first. The prediction interval is that of
-- random effects over all others of the CPU (leave one out), and covers all machines of a group together with the
-- confidence (Bonferroni). Two outliers in a small group can hide each other. Differences are against the value that
-- most machines of the group have; `alike` says whether machines with the same fingerprint cost the same.
-- param confidence double = 0.95: that no machine of a group is named without reason
-- param min_machines int = 5: smaller groups are not judged
-- column host: the machine's host
-- column cpu: the CPU model
-- column mechanism: how samples are taken
-- column event: as perf names it
-- column term: alpha, or another part of the cost
-- column unit: of the price
-- column value (unit): the machine's price
-- column value_low (unit): lower end of its 95 % interval
-- column value_high (unit): upper end
-- column predicted (unit): what the others predict
-- column predicted_low (unit): lower end of the prediction interval
-- column predicted_high (unit): upper end
-- column ratio (ratio): the price by what was predicted
-- column machines (count): machines of the group
-- column differs: in which of kernel, mitigations, microcode, virtualisation, where that may explain it; else empty
-- column kernel: the machine's
-- column usual_kernel: of most of the group
-- column mitigations: the machine's
-- column usual_mitigations: of most of the group
-- column microcode: the machine's
-- column usual_microcode: of most of the group
-- column virtualisation: the machine's
-- column usual_virtualisation: of most of the group
-- column alike (count): other machines of the group with the same fingerprint
-- column alike_outliers (count): of these, those that depart, too
-- text host event term value predicted ratio differs alike
WITH once AS (
  -- A calibration that several publications hold counts once.
  SELECT DISTINCT cpu, mechanism, event, term, unit, fingerprint, host, kernel, mitigations, microcode, virtualisation,
         time_ns, value, low, high, confidence
  FROM prices
),
stated AS (
  SELECT cpu, mechanism, event, term, unit, fingerprint, host, kernel, mitigations, microcode, virtualisation, value,
         -- The confidence's number of standard deviations (Abramowitz and Stegun 26.2.23).
         CASE WHEN confidence > 0 AND confidence < 1 THEN SQRT(-2 * LN((1 - confidence) * 0.5E0)) END AS u,
         (high - low) * 0.5E0 AS half
  FROM once
),
observed AS (
  SELECT cpu, mechanism, event, term, unit, fingerprint, host, kernel, mitigations, microcode, virtualisation, value,
         half / (u - (2.515517E0 + 0.802853E0 * u + 0.010328E0 * u * u)
                     / (1 + 1.432788E0 * u + 0.189269E0 * u * u + 0.001308E0 * u * u * u)) AS se
  FROM stated
  WHERE half > 0 AND u > 0.1
),
-- Chains of windows instead of joins: an engine that computes a common table anew for each use reads prices once.
day_w AS (
  SELECT cpu, mechanism, event, term, unit, fingerprint, host, kernel, mitigations, microcode, virtualisation, value, se,
         1 / (se * se) AS w,
         SUM(value / (se * se)) OVER (PARTITION BY cpu, mechanism, event, term, unit, fingerprint, host)
         / SUM(1 / (se * se)) OVER (PARTITION BY cpu, mechanism, event, term, unit, fingerprint, host) AS fixed
  FROM observed
),
day_q AS (
  SELECT cpu, mechanism, event, term, unit, fingerprint, host, kernel, mitigations, microcode, virtualisation, value, se,
         SUM(w * POWER(value - fixed, 2)) OVER (PARTITION BY cpu, mechanism, event, term, unit, fingerprint, host) AS q,
         SUM(w) OVER (PARTITION BY cpu, mechanism, event, term, unit, fingerprint, host) AS s1,
         SUM(w * w) OVER (PARTITION BY cpu, mechanism, event, term, unit, fingerprint, host) AS s2,
         CAST(COUNT(*) OVER (PARTITION BY cpu, mechanism, event, term, unit, fingerprint, host) AS DOUBLE) AS n
  FROM day_w
),
day_t AS (
  SELECT cpu, mechanism, event, term, unit, fingerprint, host, kernel, mitigations, microcode, virtualisation, value,
         se * se + CASE WHEN n > 1 THEN GREATEST((q - (n - 1)) / (s1 - s2 / s1), 0E0) ELSE 0E0 END AS v
  FROM day_q
),
machines AS (
  SELECT cpu, mechanism, event, term, unit, fingerprint, host, MAX(kernel) AS kernel, MAX(mitigations) AS mitigations,
         MAX(microcode) AS microcode, MAX(virtualisation) AS virtualisation,
         SUM(value / v) / SUM(1 / v) AS value, 1 / SUM(1 / v) AS v
  FROM day_t
  GROUP BY cpu, mechanism, event, term, unit, fingerprint, host
),
-- Measured from the group's mean, so that sums without one machine are exact enough as all less that one.
centred AS (
  SELECT cpu, mechanism, event, term, unit, fingerprint, host, kernel, mitigations, microcode, virtualisation, value, v,
         1 / v AS w, AVG(value) OVER (PARTITION BY cpu, mechanism, event, term, unit) AS centre,
         value - AVG(value) OVER (PARTITION BY cpu, mechanism, event, term, unit) AS y,
         CAST(COUNT(*) OVER (PARTITION BY cpu, mechanism, event, term, unit) AS DOUBLE) AS n
  FROM machines
),
without AS (
  SELECT cpu, mechanism, event, term, unit, fingerprint, host, kernel, mitigations, microcode, virtualisation, value, v,
         w, centre, y, n,
         SUM(w) OVER (PARTITION BY cpu, mechanism, event, term, unit) AS a1,
         SUM(w * w) OVER (PARTITION BY cpu, mechanism, event, term, unit) AS a2,
         SUM(w * y) OVER (PARTITION BY cpu, mechanism, event, term, unit) AS ay,
         SUM(w * y * y) OVER (PARTITION BY cpu, mechanism, event, term, unit) AS ayy
  FROM centred
),
scattered AS (
  SELECT cpu, mechanism, event, term, unit, fingerprint, host, kernel, mitigations, microcode, virtualisation, value, v,
         centre, y, n,
         -- DerSimonian and Laird's tau squared of all, for weights, and of all others, for variances.
         GREATEST((ayy - ay * ay / a1 - (n - 1)) / (a1 - a2 / a1), 0E0) AS tau2,
         GREATEST((ayy - w * y * y - POWER(ay - w * y, 2) / (a1 - w) - (n - 2))
                  / ((a1 - w) - (a2 - w * w) / (a1 - w)), 0E0) AS tau2_o
  FROM without
  WHERE n >= CAST(:min_machines AS DOUBLE) AND n >= 4
),
-- Any weights give an unbiased mean; its variance is the others'. With the group's own weights one pass is enough.
weighed AS (
  SELECT cpu, mechanism, event, term, unit, fingerprint, host, kernel, mitigations, microcode, virtualisation, value, v,
         centre, y, n, tau2_o, 1 / (v + tau2) AS g,
         SUM(1 / (v + tau2)) OVER (PARTITION BY cpu, mechanism, event, term, unit) AS b1,
         SUM(1 / POWER(v + tau2, 2)) OVER (PARTITION BY cpu, mechanism, event, term, unit) AS b2,
         SUM(v / POWER(v + tau2, 2)) OVER (PARTITION BY cpu, mechanism, event, term, unit) AS bv,
         SUM(y / (v + tau2)) OVER (PARTITION BY cpu, mechanism, event, term, unit) AS byy
  FROM scattered
),
predicted AS (
  SELECT cpu, mechanism, event, term, unit, fingerprint, host, kernel, mitigations, microcode, virtualisation, value, v, n,
         centre + (byy - g * y) / (b1 - g) AS predicted, n - 3 AS df,
         SQRT(tau2_o + v + ((bv - v * g * g) + tau2_o * (b2 - g * g)) / POWER(b1 - g, 2)) AS error,
         SQRT(-2 * LN((1 - CAST(:confidence AS DOUBLE)) * 0.5E0 / n)) AS u
  FROM weighed
),
widths AS (
  SELECT cpu, mechanism, event, term, unit, fingerprint, host, kernel, mitigations, microcode, virtualisation, value, v, n,
         predicted,
         error * SQRT(df * (EXP(POWER((u - (2.515517E0 + 0.802853E0 * u + 0.010328E0 * u * u)
                                     / (1 + 1.432788E0 * u + 0.189269E0 * u * u + 0.001308E0 * u * u * u))
                                * (8 * df + 3) / (8 * df + 1), 2) / df) - 1)) AS half
  FROM predicted
),
judged AS (
  SELECT cpu, mechanism, event, term, unit, fingerprint, host, kernel, mitigations, microcode, virtualisation, value, v, n,
         predicted, half, CASE WHEN ABS(value - predicted) > half THEN 1 ELSE 0 END AS is_out
  FROM widths
),
alike AS (
  SELECT cpu, mechanism, event, term, unit, fingerprint, host, kernel, mitigations, microcode, virtualisation, value, v, n,
         predicted, half, is_out,
         COUNT(*) OVER (PARTITION BY cpu, mechanism, event, term, unit, fingerprint) - 1 AS alike,
         CAST(SUM(is_out) OVER (PARTITION BY cpu, mechanism, event, term, unit, fingerprint) - is_out AS BIGINT) AS alike_outliers
  FROM judged
),
-- One row a machine and trait.
traits AS (
  SELECT cpu, mechanism, event, term, unit, fingerprint, host, value, v, n, predicted, half, is_out, alike, alike_outliers, trait,
         CASE WHEN trait = 'kernel' THEN kernel WHEN trait = 'mitigations' THEN mitigations
              WHEN trait = 'microcode' THEN microcode ELSE virtualisation END AS setting
  FROM alike
  CROSS JOIN (SELECT 'kernel' AS trait UNION ALL SELECT 'mitigations' AS trait
              UNION ALL SELECT 'microcode' AS trait UNION ALL SELECT 'virtualisation' AS trait) names
),
settings AS (
  SELECT cpu, mechanism, event, term, unit, fingerprint, host, value, v, n, predicted, half, is_out, alike, alike_outliers, trait, setting,
         COUNT(*) OVER (PARTITION BY cpu, mechanism, event, term, unit, trait, setting) AS n_same,
         SUM(is_out) OVER (PARTITION BY cpu, mechanism, event, term, unit, trait, setting) AS out_same
  FROM traits
),
most AS (
  SELECT cpu, mechanism, event, term, unit, fingerprint, host, value, v, n, predicted, half, is_out, alike, alike_outliers, trait, setting,
         n_same, out_same, MAX(n_same) OVER (PARTITION BY cpu, mechanism, event, term, unit, trait) AS n_most
  FROM settings
),
usual AS (
  SELECT cpu, mechanism, event, term, unit, fingerprint, host, value, v, n, predicted, half, is_out, alike, alike_outliers, trait, setting,
         n_same, out_same,
         MIN(CASE WHEN n_same = n_most THEN setting END) OVER (PARTITION BY cpu, mechanism, event, term, unit, trait) AS usual
  FROM most
),
-- A setting that most of its other machines have without departing explains nothing, and is not named.
named AS (
  SELECT cpu, mechanism, event, term, unit, fingerprint, host, value, v, n, predicted, half, alike, alike_outliers, trait, setting, usual,
         CASE WHEN setting <> usual AND (out_same - 1) * 2 >= n_same - 1 THEN CONCAT(trait, ' ') ELSE '' END AS name
  FROM usual
  WHERE is_out = 1
),
told AS (
  SELECT cpu, mechanism, event, term, unit, fingerprint, host, MAX(value) AS value, MAX(v) AS v, MAX(n) AS n, MAX(predicted) AS predicted,
         MAX(half) AS half, MAX(alike) AS alike, MAX(alike_outliers) AS alike_outliers,
         TRIM(CONCAT(MAX(CASE WHEN trait = 'kernel' THEN name END), MAX(CASE WHEN trait = 'mitigations' THEN name END),
                     MAX(CASE WHEN trait = 'microcode' THEN name END),
                     MAX(CASE WHEN trait = 'virtualisation' THEN name END))) AS differs,
         MAX(CASE WHEN trait = 'kernel' THEN setting END) AS kernel,
         MAX(CASE WHEN trait = 'kernel' THEN usual END) AS usual_kernel,
         MAX(CASE WHEN trait = 'mitigations' THEN setting END) AS mitigations,
         MAX(CASE WHEN trait = 'mitigations' THEN usual END) AS usual_mitigations,
         MAX(CASE WHEN trait = 'microcode' THEN setting END) AS microcode,
         MAX(CASE WHEN trait = 'microcode' THEN usual END) AS usual_microcode,
         MAX(CASE WHEN trait = 'virtualisation' THEN setting END) AS virtualisation,
         MAX(CASE WHEN trait = 'virtualisation' THEN usual END) AS usual_virtualisation
  FROM named
  GROUP BY cpu, mechanism, event, term, unit, fingerprint, host
)
SELECT host, cpu, mechanism, event, term, unit, value, value - 1.959963985E0 * SQRT(v) AS value_low, value + 1.959963985E0 * SQRT(v) AS value_high,
       predicted, predicted - half AS predicted_low, predicted + half AS predicted_high,
       value / NULLIF(predicted, 0E0) AS ratio, CAST(n AS BIGINT) AS machines, differs, kernel, usual_kernel,
       mitigations, usual_mitigations, microcode, usual_microcode, virtualisation, usual_virtualisation,
       alike, alike_outliers
FROM told
ORDER BY mechanism, event, term, unit, cpu, ABS(LN(GREATEST(value / NULLIF(predicted, 0E0), 1E-300))) DESC NULLS LAST,
         host, fingerprint
