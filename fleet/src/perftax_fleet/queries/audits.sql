-- How true samples are, over the machines that audited them: each finding by mechanism, event and CPU.
-- param cpu text = null: only this CPU model
-- column finding: what was found
-- column mechanism: how samples are taken
-- column event: as perf names it
-- column cpu: the CPU model
-- column unit: of the values
-- column hosts (count): hosts that have the finding
-- column audits (count): audits that have it
-- column without_value (count): of these, how many have no number
-- column lowest (unit): smallest value
-- column median (unit): the middle one (of an even number, the lower middle)
-- column highest (unit): largest value
-- column host_of_highest: where that was
-- text finding event cpu hosts audits lowest median highest host_of_highest
WITH ranked AS (
  SELECT finding, mechanism, event, cpu, unit, host, value,
         ROW_NUMBER() OVER (PARTITION BY finding, mechanism, event, cpu, unit
                            ORDER BY value NULLS LAST, host, recording, time_ns) AS place,
         ROW_NUMBER() OVER (PARTITION BY finding, mechanism, event, cpu, unit
                            ORDER BY value DESC NULLS LAST, host, recording, time_ns) AS place_down,
         COUNT(value) OVER (PARTITION BY finding, mechanism, event, cpu, unit) AS known
  FROM audits
  WHERE :cpu IS NULL OR cpu = :cpu
)
SELECT finding, mechanism, event, cpu, unit, COUNT(DISTINCT host) AS hosts, COUNT(*) AS audits,
       COUNT(*) - COUNT(value) AS without_value,
       MIN(value) AS lowest,
       MIN(CASE WHEN place * 2 >= known THEN value END) AS median,
       MAX(value) AS highest,
       MAX(CASE WHEN place_down = 1 AND value IS NOT NULL THEN host END) AS host_of_highest
FROM ranked
GROUP BY finding, mechanism, event, cpu, unit
ORDER BY finding, mechanism, event, cpu, unit
