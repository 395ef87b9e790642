# median LIST: the median, and order statistics between which it lies with 95 %: a binomial's. For scripts that are run in the repository.
use strict;
use warnings;
sub median {
    my @sorted = sort { $a <=> $b } @_;
    my $n = @sorted;
    my ($depth, $below, $term) = (0, 0, 0.5 ** $n);
    for my $k (0 .. int($n / 2)) {
        $below += $term;
        last if $below > 0.025;
        $depth = $k + 1;
        $term *= ($n - $k) / ($k + 1);
    }
    $depth ||= 1;
    my $middle = $n % 2 ? $sorted[$n / 2] : ($sorted[$n / 2 - 1] + $sorted[$n / 2]) / 2;
    return ($middle, $sorted[$depth - 1], $sorted[$n - $depth]);
}
1;
