# The lower 95 % end of a rate, so many of so many, by Clopper and Pearson (one-sided 97.5 %): by bisection.
use strict;
use warnings;

sub at_least {
    my ($k, $n) = @_;
    return 0 if $k == 0;
    my ($low, $high) = (0, 1);
    for (1 .. 60) {
        my $p = ($low + $high) / 2;
        # P(X >= k), by its terms' logarithms.
        my ($sum, $log) = (0, 0);
        for my $i (0 .. $n) {
            $log += log(($n - $i + 1) / $i) if $i;
            $sum += exp($log + $i * log($p) + ($n - $i) * log(1 - $p)) if $i >= $k;
        }
        $sum > 0.025 ? ($high = $p) : ($low = $p);
    }
    return $low;
}

1;
