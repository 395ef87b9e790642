# comm-budget.pl FOLDER ROUNDS: see comm-budget.
use strict;
use warnings;
use List::Util qw(shuffle sum min max);
use Time::HiRes qw(time);
use JSON::PP;
my ($folder, $rounds) = @ARGV;
# Student's t, two-sided 95 %, by degrees of freedom.
my @t = (undef, 12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13, 2.12, 2.11, 2.10, 2.09);
my @comm = ($ENV{PERFTAX}, qw(comm --watch pair -o /dev/null --wait=600));
sub text { open my $file, '<', $_[0] or die "$_[0]: $!"; local $/; scalar <$file> }

# Elapsed and CPU time of a command, perftax's own in it.
sub timed {
    my @command = @_;
    my ($began, @before) = (time, times);
    my $child = fork // die "fork: $!";
    if (!$child) {
        open STDERR, '>', "$folder/said";
        exec @command or exit 127;
    }
    waitpid $child, 0;
    die "@command: exit $?\n" . text("$folder/said") if $?;
    my ($elapsed, @after) = (time - $began, times);
    return ($elapsed, $after[2] + $after[3] - $before[2] - $before[3]);
}

# The mean ratio by logarithms, and its interval.
sub ratio {
    my @logs = map { log } @_;
    my $mean = sum(@logs) / @logs;
    my $half = ($t[@logs - 1] // 2.0) * sqrt(sum(map { ($_ - $mean) ** 2 } @logs) / (@logs - 1) / @logs);
    return sprintf 'x %.3f [%.3f, %.3f]', map { exp } $mean, $mean - $half, $mean + $half;
}

my @beside = sort { $a <=> $b } map { (timed(@comm, '--', "$folder/pair", 1, 0))[0] - (timed("$folder/pair", 1, 0))[0] } 1 .. 11;
printf "beside the program: %.0f ms (median of %d; %.0f to %.0f)\n", 1000 * $beside[5], scalar @beside, 1000 * min(@beside), 1000 * max(@beside);
for my $between (0, 200) {
    # Six seconds of it.
    my $turns = 1_000_000;
    $turns = int($turns * 6 / ((timed("$folder/pair", $turns, $between))[0] + 1e-3)) for 1 .. 3;
    my (%took, @shares);
    my $named = 0;
    for my $round (0 .. $rounds - 1) {
        for my $kind (shuffle qw(off off2 comm)) {
            my @command = ("$folder/pair", $turns, $between);
            $took{$kind}[$round] = [timed($kind eq 'comm' ? (@comm, '--json', "$folder/comm.json", '--', @command) : @command)];
        }
        my $text = text("$folder/comm.json");
        my $found = decode_json($text);
        $named++ if @{ $found->{pairs} } && $text =~ /pair\.c/;
        push @shares, $found->{cost}{overhead}{estimate} if $found->{cost}{overhead};
    }
    printf "\n%s between touches: %.1f s a run; the pair is named by its lines in %d of %d\n", $between ? "$between turns" : 'nothing',
        $took{off}[0][0], $named, $rounds;
    for my $what (0, 1) {
        my $of = sub {
            my ($on, @off) = @_;
            map { my $round = $_; $took{$on}[$round][$what] / (sum(map { $took{$_}[$round][$what] } @off) / @off) } 0 .. $rounds - 1;
        };
        printf "  %-8s comm %s, alone against alone %s\n", $what ? 'CPU time' : 'elapsed', ratio($of->('comm', 'off', 'off2')), ratio($of->('off2', 'off'));
    }
    printf "  by its own account: %s\n", join ', ', map { sprintf '%.1f %%', 100 * $_ } @shares if @shares;
}
