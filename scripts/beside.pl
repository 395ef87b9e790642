# beside.pl RUNS ARM…: a table of what scripts/beside measured. A line of RUNS is round, arm, seconds of the program, begin, end, bytes.
use strict;
use warnings;
require './scripts/median.pl';
my ($runs, @arms) = @ARGV;
my %of;
open my $from, '<', $runs or die "$runs: $!\n";
while (<$from>) { my ($round, $arm, @rest) = split; $of{$round}{$arm} = \@rest }
my %name = (
    'perf-fp' => '`perf record -F 999 -g`', 'perf-dwarf' => '`perf record -F 999 --call-graph dwarf`', samply => '`samply record --rate 999`',
    bpftrace => 'bpftrace, `profile:hz:999 { @[ustack] = count() }`', 'perftax-fp' => '`perftax record -F 999 -g`', 'perftax-dwarf' => '`perftax record -F 999 --call-graph dwarf`',
    again => 'A/A',
);
print "| recorder | the program takes longer, % | the command takes more, s | written, kB |\n|---|---|---|---|\n";
for my $arm ('again', @arms) {
    my (@longer, @around, @bytes);
    for my $round (values %of) {
        my ($none, $again, $on) = @$round{'none', 'again', $arm};
        my $off = $arm eq 'again' ? $none->[0] : ($none->[0] + $again->[0]) / 2;
        push @longer, 100 * ($on->[0] / $off - 1);
        push @around, ($on->[2] - $on->[1]) - ($none->[2] - $none->[1]);
        push @bytes, $on->[3] / 1000;
    }
    my ($bytes) = median(@bytes);
    printf "| %s | %s | %s | %s |\n", $name{$arm}, sprintf('%.1f [%.1f, %.1f]', median(@longer)), sprintf('%.2f [%.2f, %.2f]', median(@around)), $arm eq 'again' ? '' : sprintf('%.0f', $bytes);
}
