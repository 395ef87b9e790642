# bills.pl FOLDER: what scripts/bills measured, beside what was billed. One line a kind, and all of them together.
use strict;
use warnings;
use utf8;
use JSON::PP;
binmode STDOUT, ':utf8';
my ($folder) = @ARGV;
sub text { open my $file, '<', $_[0] or die "$_[0]: $!"; local $/; scalar <$file> }
# Student's t, two-sided 95 %, by degrees of freedom.
my @t = (undef, 12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13, 2.12, 2.11, 2.10, 2.09);
sub mean { my $sum = 0; $sum += $_ for @_; $sum / @_ }
sub half_width {
    my $mean = mean(@_);
    my $variance = 0;
    $variance += ($_ - $mean) ** 2 for @_;
    return ($t[@_ - 1] // 2.0) * sqrt($variance / (@_ - 1) / @_);
}
sub middle { my @sorted = sort { $a <=> $b } @_; @sorted ? 100 * $sorted[@sorted / 2] : 0 }
# What a warning says, without its remedy.
sub said {
    my ($warning) = @_;
    return $warning->{message} // join ' ', $warning->{code}, map { $_ eq 'code' || ref $warning->{$_} ? () : "$_ $warning->{$_}" } sort keys %$warning;
}

# What the program paid: of CPUs that were watched, by the processes that it was.
sub billed {
    my ($bill) = @_;
    return $bill->{cost_s} ? map { $bill->{cost_s}{$_} } qw(low estimate high) : () unless $bill->{of_cpus};
    my @sum = (0, 0, 0);
    for my $process (grep { $_->{key} =~ / bills-work$/ && $_->{cost_s} } @{ $bill->{by_process} }) {
        my @cost = map { $process->{cost_s}{$_} } qw(low estimate high);
        $sum[$_] += $cost[$_] for 0 .. 2;
    }
    return @sum;
}

my (%took, @order);
for (split /\n/, text("$folder/runs")) {
    my ($kind, $arm, $round, $elapsed_s, $cpu_s) = split;
    $took{$kind}{$round}{$arm} = $cpu_s;
}
for (split /\n/, text("$folder/kinds")) {
    my ($kind) = split /\|/;
    push @order, $kind;
}
my ($covered, $covered_dear, $covered_clear, $near, @widths, @dear, @clear, @errors, %pooled) = (0, 0, 0, 0);
printf "%-15s %7s %6s  %-24s %-15s %-8s %5s %6s  %s\n", 'kind', 'run', 'A/A', 'billed', 'measured', 'interval', 'half', 'off by', 'warnings';
for my $kind (@order) {
    my $of = $took{$kind};
    my @rounds = sort { $a <=> $b } grep { keys %{ $of->{$_} } == 3 } keys %$of;
    my @bills = map { decode_json(text("$folder/$kind.$_.json")) } @rounds;
    my %base = map { $_ => mean($of->{$_}{off}, $of->{$_}{off2}) } @rounds;
    my $cpu_s = mean(values %base);
    my $aa = half_width(map { ($of->{$_}{off2} - $of->{$_}{off}) / $cpu_s } @rounds);
    my @more = map { ($of->{$_}{on} - $base{$_}) / $cpu_s } @rounds;
    my ($measured, $half) = (mean(@more), half_width(@more));
    # One calibration priced all of them: their errors are one.
    my @each = map { [billed($_)] } @bills;
    my @priced = grep { @$_ } @each;
    my ($low, $middle, $high) = @priced == @each ? map { my $end = $_; mean(map { $_->[$end] } @each) / $cpu_s } 0 .. 2 : ();
    my $most = 0;
    for (@bills) { $most = @{ $_->{warnings} } if @{ $_->{warnings} } > $most }
    my ($first) = map { @{ $_->{warnings} } ? said($_->{warnings}[0]) : () } @bills;
    my ($is_covered, $relative, $error) = (0, 9);
    if (defined $middle) {
        # What is measured errs both ways, what is billed as far as it says on the side that counts.
        my $difference = $measured - $middle;
        my $width = sqrt($half ** 2 + ($difference > 0 ? $high - $middle : $middle - $low) ** 2);
        $is_covered = abs $difference <= $width;
        $relative = $measured > 0 ? $width / $measured : 9;
        $error = $middle / $measured - 1 if $measured > 0;
    }
    $covered += $is_covered;
    push @widths, $relative;
    push @errors, $error // 9;
    $near++ if defined $error && abs $error <= 0.2;
    if ($measured >= 0.05) {
        push @dear, $relative;
        $covered_dear += $is_covered;
    }
    # What is less than three times what two arms alike differ by is not judged by itself.
    if ($measured >= 3 * $aa) {
        push @clear, $relative;
        $covered_clear += $is_covered;
    } elsif (defined $middle) {
        $pooled{kinds}++;
        $pooled{measured} += $cpu_s * $measured;
        $pooled{variance} += ($cpu_s * $half) ** 2;
        $pooled{$_->[0]} += $cpu_s * $_->[1] for [ low => $low ], [ middle => $middle ], [ high => $high ];
    }
    printf "%-15s %5.0f ms %4.1f %%  %-24s %-15s %-8s %3.0f %% %6s  %s\n", $kind, 1000 * $cpu_s, 100 * $aa,
        defined $middle ? sprintf('%5.1f %% [%.1f, %.1f]', map { 100 * $_ } $middle, $low, $high) : 'unknown', sprintf('%5.1f %% ± %.1f', 100 * $measured, 100 * $half),
        $is_covered ? 'holds 0' : 'MISSES', 100 * $relative, defined $error ? sprintf('%+.0f %%', 100 * $error) : '?', $most ? "$most: $first" : '0';
}
printf "\n%d of %d intervals of (billed - measured) hold 0; median half-width %.0f %% of the cost\n", $covered, scalar @order, middle(@widths);
printf "of those that cost 5 %% and more: %d of %d, median half-width %.0f %%\n", $covered_dear, scalar @dear, middle(@dear);
printf "of those that cost three times the half-width of off against off and more: %d of %d, median half-width %.0f %%\n", $covered_clear, scalar @clear,
    middle(@clear);
printf "the other %d together: billed %.0f ms [%.0f, %.0f], measured %.0f ms ± %.0f\n", $pooled{kinds}, map { 1000 * $_ } @pooled{qw(middle low high measured)},
    sqrt $pooled{variance}
    if $pooled{kinds};
printf "%d of %d are off by 20 %% at most; median %.0f %% either way\n", $near, scalar @order, middle(map { abs } @errors);
