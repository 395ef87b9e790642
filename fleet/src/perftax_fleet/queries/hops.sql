-- How long messages are on the way between services, queues included: where both ends of a hop were kept.
-- Two hosts' clocks are compared, so each time lies within the sum of both clocks' errors, as recordings state them:
-- the ends of an interval are quantiles of the times less and plus that error. Ends on one host have no such error.
-- Where a clock's error is not stated, nothing is said (NULL). Ends that fit several others are left out and counted.
-- param from_service text = null: only from this service
-- param to_service text = null: only to this service
-- column from_service: which sent
-- column to_service: which received
-- column hops (count): pairs of ends
-- column known (count): of these, those whose clocks' errors are stated
-- column unresolved (count): of the known, those shorter than the clocks' error
-- column impossible (count): of the known, those that arrive before they were sent, beyond the error: a clock is wrong
-- column ambiguous (count): pairs left out, because an end fits several others
-- column error_ns (ns): mean error of the known
-- column p50_ns (ns): half of the known take less
-- column p50_ns_low (ns): lower end
-- column p50_ns_high (ns): upper end
-- column p99_ns (ns): 99 % of the known take less
-- column p99_ns_low (ns): lower end
-- column p99_ns_high (ns): upper end
-- column verdict: whether the clocks tell the middle hop from none
-- text from_service to_service hops known unresolved p50_ns p99_ns verdict
WITH clocks AS (
  SELECT host, recording, MAX(boot) AS boot, MAX(clock_error_ns) AS clock_error_ns FROM recordings GROUP BY host, recording
),
-- Several of one message, span and way (a retry) cannot be told apart: `times` keeps them out below.
ends AS (
  SELECT MAX(service) AS service, MAX(host) AS host, MAX(recording) AS recording, message, trace, span, way,
         MIN(time_ns) AS time_ns, COUNT(*) AS times
  FROM hops
  GROUP BY message, trace, span, way
),
pairs AS (
  SELECT s.service AS from_service, s.host AS from_host, s.recording AS from_recording, s.time_ns AS sent_ns,
         r.service AS to_service, r.host AS to_host, r.recording AS to_recording, r.time_ns AS received_ns,
         SUM(r.times) OVER (PARTITION BY s.message, s.span) AS receivers,
         SUM(s.times) OVER (PARTITION BY r.message, r.span) AS senders
  FROM ends s
  JOIN ends r ON r.trace = s.trace AND r.span = s.span
  WHERE s.way = 'sent' AND r.way = 'received' AND s.message <> r.message
    AND (:from_service IS NULL OR s.service = :from_service) AND (:to_service IS NULL OR r.service = :to_service)
),
clocked AS (
  SELECT p.from_service, p.to_service, p.receivers, p.senders,
         CAST(CAST(p.received_ns AS DECIMAL(38, 0)) - CAST(p.sent_ns AS DECIMAL(38, 0)) AS DOUBLE) AS took,
         CASE WHEN p.from_host = p.to_host AND a.boot = b.boot THEN 0E0
              ELSE CAST(a.clock_error_ns AS DOUBLE) + CAST(b.clock_error_ns AS DOUBLE) END AS error
  FROM pairs p
  LEFT JOIN clocks a ON a.recording = p.from_recording AND a.host = p.from_host
  LEFT JOIN clocks b ON b.recording = p.to_recording AND b.host = p.to_host
),
judged AS (
  SELECT from_service, to_service, took, error, took - error AS least, took + error AS most,
         CASE WHEN receivers > 1 OR senders > 1 THEN 2 WHEN error IS NULL THEN 1 ELSE 0 END AS lack
  FROM clocked
),
ranked AS (
  SELECT from_service, to_service, took, error, least, most, lack,
         CAST(ROW_NUMBER() OVER (PARTITION BY from_service, to_service, lack ORDER BY took) AS DOUBLE) AS place,
         CAST(ROW_NUMBER() OVER (PARTITION BY from_service, to_service, lack ORDER BY least) AS DOUBLE) AS place_least,
         CAST(ROW_NUMBER() OVER (PARTITION BY from_service, to_service, lack ORDER BY most) AS DOUBLE) AS place_most,
         CAST(COUNT(*) OVER (PARTITION BY from_service, to_service, lack) AS DOUBLE) AS n
  FROM judged
),
grouped AS (
  SELECT from_service, to_service,
         COUNT(CASE WHEN lack < 2 THEN 1 END) AS hops, COUNT(CASE WHEN lack = 0 THEN 1 END) AS known,
         COUNT(CASE WHEN lack = 0 AND least <= 0 AND most >= 0 THEN 1 END) AS unresolved,
         COUNT(CASE WHEN lack = 0 AND most < 0 THEN 1 END) AS impossible,
         COUNT(CASE WHEN lack = 2 THEN 1 END) AS ambiguous,
         AVG(CASE WHEN lack = 0 THEN error END) AS error_ns,
         MIN(CASE WHEN lack = 0 AND place * 100 >= n * 50 THEN took END) AS p50_ns,
         MIN(CASE WHEN lack = 0 AND place_least * 100 >= n * 50 THEN least END) AS p50_ns_low,
         MIN(CASE WHEN lack = 0 AND place_most * 100 >= n * 50 THEN most END) AS p50_ns_high,
         MIN(CASE WHEN lack = 0 AND place * 100 >= n * 99 THEN took END) AS p99_ns,
         MIN(CASE WHEN lack = 0 AND place_least * 100 >= n * 99 THEN least END) AS p99_ns_low,
         MIN(CASE WHEN lack = 0 AND place_most * 100 >= n * 99 THEN most END) AS p99_ns_high
  FROM ranked
  GROUP BY from_service, to_service
)
SELECT from_service, to_service, hops, known, unresolved, impossible, ambiguous, error_ns,
       p50_ns, p50_ns_low, p50_ns_high, p99_ns, p99_ns_low, p99_ns_high,
       CASE WHEN known = 0 THEN 'clocks unknown' WHEN p50_ns_high < 0 THEN 'a clock is wrong'
            WHEN p50_ns_low <= 0 THEN 'shorter than the clocks'' error' ELSE 'longer than the clocks'' error' END AS verdict
FROM grouped
ORDER BY from_service, to_service
