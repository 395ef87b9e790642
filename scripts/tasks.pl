# tasks.pl FOLDER CPUS [FOLDER CPUS…]: what scripts/tasks measured in each, beside what was predicted. One line a cell, and all of them together.
use strict;
use warnings;
use JSON::PP;
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
my ($covered, $cells, $seen, $sampled, $told_covered, @widths, @told) = (0, 0, 0, 0, 0);
while (my ($folder, $cpus) = splice @ARGV, 0, 2) {
    my $terms = decode_json(text("$folder/calibration.json"))->{terms};
    my (%off, %on);
    for (split /\n/, text("$folder/runs")) {
        my ($name, $cell, $round, $elapsed_s, $cpu_s, $samples) = split;
        if ($cell =~ /^off/) { $off{$name}{$round}{$cell} = $cpu_s }
        else { $on{$name}{$cell}{$round} = [$cpu_s, $samples] }
    }
    print "\n" if $cells;
    printf "%s\n", $folder =~ /emulated$/ ? 'emulated' : 'this machine';
    for my $name (sort keys %on) {
        my @rounds = sort { $a <=> $b } keys %{ $off{$name} };
        my %base = map { $_ => mean(values %{ $off{$name}{$_} }) } @rounds;
        my $cpu_s = mean(values %base);
        my @aa = map { ($off{$name}{$_}{off2} - $off{$name}{$_}{off}) / $cpu_s } @rounds;
        printf "%s: %.3f s of CPU time; off against off %+.2f %% ± %.2f\n", $name, $cpu_s, 100 * mean(@aa), 100 * half_width(@aa);
        for my $cell (sort keys %{ $on{$name} }) {
            my ($attach, $events, $period) = split m{/}, $cell;
            my $predicted = decode_json(text("$folder/$name.$attach.json"));
            my ($row) = grep { $_->{period} == $period } @{ $predicted->{rows} };
            my ($low, $middle, $high) = map { $row->{cpu_overhead}{$_} } qw(low estimate high);
            my $created = $predicted->{workload}{tasks}{threads} + $predicted->{workload}{tasks}{processes};
            if ($events > 1) {
                my $each = ($events - 1) * $cpus * $created * 1e-9 / $cpu_s;
                my $event = $terms->{"task-event"};
                my ($more, $least, $most) = map { $_ * $each } map { $event->{$_} } qw(estimate low high);
                # As uncertain as the first one's, and in the same way (crates/perftax-cost/src/cost.rs, TASKS_MORE and TASKS_LESS).
                $low += $least < $more / 1.1 ? $least : $more / 1.1;
                $high += $most > $more * 1.2 ? $most : $more * 1.2;
                $middle += $more;
            }
            my @more = map { ($on{$name}{$cell}{$_}[0] - $base{$_}) / $cpu_s } @rounds;
            my ($measured, $half) = (mean(@more), half_width(@more));
            # What is measured errs both ways, what is predicted as far as it says on the side that counts.
            my $difference = $measured - $middle;
            my $width = sqrt($half ** 2 + ($difference > 0 ? $high - $middle : $middle - $low) ** 2);
            my $is_covered = abs $difference <= $width;
            my $samples = '';
            if ($attach eq 'inherited') {
                # Of so much CPU time as these runs took: how fast the machine is drifts between a prediction and them.
                my $n = $row->{samples} * $cpu_s / $predicted->{workload}{cpu_s}{estimate};
                my $came = mean(map { $on{$name}{$cell}{$_}[1] } @rounds);
                my $more = $came > $n ? $came : $n;
                my $allowed = 0.1 * $n > 3 * sqrt($more) ? 0.1 * $n : 3 * sqrt($more);
                my $is_right = abs($came - $n) <= $allowed;
                $sampled++;
                $seen += $is_right;
                $samples = sprintf ', samples %.0f of %.0f%s', $came, $n, $is_right ? '' : ' (off)';
            }
            $cells++;
            $covered += $is_covered;
            my $relative = $measured > 0 ? $width / $measured : 9;
            push @widths, $relative;
            # Whatever is below three times what nothing at all differs by shows little.
            if ($measured >= 3 * half_width(@aa)) {
                push @told, $relative;
                $told_covered += $is_covered;
            }
            printf "  %-22s predicted %6.2f %% [%.2f, %.2f], measured %6.2f %% ± %.2f: %s, half-width %.0f %% of it%s\n", $cell, 100 * $middle, 100 * $low,
                100 * $high, 100 * $measured, 100 * $half, $is_covered ? 'covered' : 'OFF', 100 * $relative, $samples;
        }
    }
}
print "\n";
sub middle { my @sorted = sort { $a <=> $b } @_; @sorted ? 100 * $sorted[@sorted / 2] : 0 }
printf "%d of %d cells covered, median half-width %.0f %% of the effect; samples right in %d of %d\n", $covered, $cells, middle(@widths), $seen, $sampled;
printf "of effects of three half-widths of off against off and more: %d of %d cells covered, median half-width %.0f %% of the effect\n", $told_covered,
    scalar @told, middle(@told);
