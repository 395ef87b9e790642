# tool-prices.pl FOLDER: predicted beside measured, a line a cell, and how many hold. Measured is the median of the rounds' ratios to the mean of both runs without the tool;
# its interval is made of order statistics, and so is that of the two runs without it against each other.
use strict;
use warnings;
require './scripts/median.pl';
my ($folder) = @ARGV;
my ($held, $cells, @widths, $cheap) = (0, 0);
printf "%-9s %-52s %-26s %-26s %-16s %s\n", 'program', 'line', 'predicted %', 'measured %', 'A/A %', 'difference';
for my $runs (sort glob "$folder/*.runs") {
    (my $base = $runs) =~ s/\.runs$//;
    my ($name, $line) = split /\t/, slurp("$base.name"), 2;
    chomp $line;
    my $said = decode_json(slurp("$base.json"));
    my %took;
    for (split /\n/, slurp($runs)) { my ($round, $arm, $s) = split; $took{$round}{$arm} = $s }
    my (@more, @same);
    for my $round (values %took) {
        my $off = ($round->{off} + $round->{off2}) / 2;
        push @more, $round->{on} / $off - 1;
        push @same, $round->{off2} / $round->{off} - 1;
    }
    my ($measured, $low, $high) = median(@more);
    my (undef, $aa_low, $aa_high) = median(@same);
    my $p = $said->{priced_overhead};
    my ($least, $most) = map { sqrt($_->[0] ** 2 + $_->[1] ** 2) }
        [$p->{estimate} - $p->{low}, $high - $measured], [$p->{high} - $p->{estimate}, $measured - $low];
    my $difference = $p->{estimate} - $measured;
    my $holds = $difference - $least <= 0 && $difference + $most >= 0;
    my $counts = $measured >= 0.05;
    if ($counts) { $cells++; $held++ if $holds; push @widths, ($p->{high} - $p->{low}) / 2 / $measured }
    my $verdict = !$counts ? 'below 5 %' : $holds ? 'contains 0' : 'misses';
    $verdict .= ', least' if @{$said->{unpriced}};
    printf "%-9s %-52s %-26s %-26s %-16s %s\n", $name, $line, shown($p->{estimate}, $p->{low}, $p->{high}), shown($measured, $low, $high),
        sprintf('[%.1f, %.1f]', 100 * $aa_low, 100 * $aa_high), sprintf('%+.1f: %s', 100 * $difference, $verdict);
}
@widths = sort { $a <=> $b } @widths;
printf "%d of %d that cost 5 %% and more contain 0; median half-width of the prediction %.0f %% of the effect\n", $held, $cells, @widths ? 100 * $widths[$#widths / 2] : 0;

sub shown { my ($middle, $low, $high) = map { 100 * $_ } @_; sprintf '%.1f [%.1f, %.1f]', $middle, $low, $high }
sub slurp { my ($file) = @_; open my $from, '<', $file or die "$file: $!\n"; local $/; return scalar <$from> }
