# judge.pl REPORT TRUTH LANGUAGE EACH: how many planted delays have their cause named.
use strict;
use warnings;
use JSON::PP;
my ($report, $truth, $language, $each) = @ARGV;
open my $json, '<', $report or die "$report: $!\n";
my $document = decode_json(do { local $/; <$json> });
my %slow = map { $_->{id} => $_ } @{ $document->{slowest} };
my $on_no_thread = $language =~ /^(?:go|asyncio|node)$/;
my %right = (
    spin    => sub { $_[0]{cause} eq 'on CPU' },
    faults  => sub { $_[0]{cause} eq 'page fault' },
    preempt => sub { $_[0]{cause} eq 'preempted' && ($_[0]{which} // '') =~ /hog/ },
    # Where an event loop or a scheduler waits, the message is on no thread.
    block   => sub { $on_no_thread ? $_[0]{cause} eq 'unattended' : $_[0]{cause} =~ /^(?:blocked|runnable)$/ },
    gc      => sub {
        my $slow = shift;
        # Python and Node collect in the thread that is at the message; the JVM's own thread ends the stop; in Go the goroutine is taken off its thread.
        return $slow->{cause} =~ /^(?:blocked|runnable)$/ && ($slow->{woken_by}{thread} // '') =~ /^(?:VM Thread|G1|GC )/ if $language eq 'java';
        return $slow->{cause} =~ /^(?:unattended|blocked)$/ if $language eq 'go';
        return $slow->{cause} eq 'on CPU';
    },
);
my (%count, %good, %said, %otherwise);
open my $lines, '<', $truth or die "$truth: $!\n";
while (<$lines>) {
    chomp;
    my ($id, $way, $asked, $took, $own) = split /,/;
    my $slow = $slow{$id};
    # What took less than half of the message's time is not what made it slow, nor is what was asked for where it took twice as long (collections and timers take what they take).
    if (2 * $own < $took || ($way !~ /^(?:gc|block)$/ && $own > 2 * $asked)) {
        $otherwise{$way}++;
        next;
    }
    $count{$way}++;
    if ($slow && $right{$way}->($slow)) {
        $good{$way}++;
        next;
    }
    my $by = $slow && $slow->{woken_by} ? 'ended by ' . ($slow->{woken_by}{thread} // '?') : '';
    $said{$way}{ $slow ? join ': ', grep { length } $slow->{cause}, $slow->{which} // '', $by : 'not among the slowest' }++;
}
require '../../scripts/at-least.pl';
for my $way (qw(spin faults preempt block gc)) {
    my $count = $count{$way} // 0;
    die "$way: of $each planted $count took half of the message's time\n" if $count < 0.85 * $each;
    my $said = join ', ', map { "$_ ($said{$way}{$_})" } sort keys %{ $said{$way} };
    my $right = $good{$way} // 0;
    printf "| %s | %s | %d | %d | %.1f %% | %d | %s |\n", $language, $way, $count, $right, 100 * at_least($right, $count), $otherwise{$way} // 0, $said;
}
printf STDERR "%s: messages %d, median %.1f us, lost %d, marks dropped %d\n", $language, $document->{messages}, $document->{latency}{p50_ns} / 1000,
    $document->{lost}, $document->{dropped};
