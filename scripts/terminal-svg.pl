# terminal-svg.pl COMMAND <OUTPUT >PICTURE: what a terminal of 110 columns shows of a command and its output, colours and all, as SVG.
use strict;
use warnings;
use utf8;
use open qw(:std :utf8);
my ($command) = @ARGV;
my ($columns, $width, $height, $margin) = (110, 8.4, 19, 14);
my %colour = (31 => '#f7768e', 32 => '#9ece6a', 33 => '#e0af68', 34 => '#7aa2f7', 35 => '#bb9af7', 36 => '#7dcfff', 90 => '#787c99');
my @lines = ([ [ '$ ', 'fill="#9ece6a"' ], [ $command, 'font-weight="bold"' ] ]);
while (my $line = <STDIN>) {
    $line =~ s/[\r\n]+$//;
    # What was there before a line was wiped out is not seen.
    $line =~ s/.*\x1b\[2K//;
    $line =~ s/.*\r//;
    my (@parts, $style);
    $style = '';
    for my $part (split /(\x1b\[[0-9;]*[A-Za-z])/, $line) {
        if ($part =~ /^\x1b\[([0-9;]*)([A-Za-z])$/) {
            next unless $2 eq 'm';
            for my $code (split /;/, $1 eq '' ? '0' : $1) {
                $style = '' if $code == 0 || $code == 39 || $code == 22;
                $style .= ' font-weight="bold"' if $code == 1;
                $style .= ' opacity="0.65"' if $code == 2;
                $style .= qq( fill="$colour{$code}") if $colour{$code};
            }
        } elsif ($part ne '') {
            push @parts, [ $part, $style ];
        }
    }
    push @lines, \@parts;
}
pop @lines while @lines > 1 && !@{ $lines[-1] };
my ($across, $down) = ($columns * $width + 2 * $margin, @lines * $height + 2 * $margin);
printf qq(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" width="%.0f" height="%.0f" role="img">\n), $across, $down, $across, $down;
printf qq(<rect width="100%%" height="100%%" rx="8" fill="#1a1b26"/>\n<g font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="14" fill="#c0caf5" xml:space="preserve">\n);
my $row = 0;
for my $parts (@lines) {
    my $y = $margin + ++$row * $height - 5;
    my $at = 0;
    for (@$parts) {
        my ($text, $style) = @$_;
        # Spaces at either end are no text, and would be left out of its length.
        my ($before) = $text =~ /^(\s*)/;
        my $whole = length $text;
        $text =~ s/^\s+|\s+$//g;
        my $escaped = $text =~ s/&/&amp;/gr =~ s/</&lt;/gr =~ s/>/&gt;/gr =~ s/ /&#160;/gr;
        # Each part where a terminal has it, whatever font is there.
        printf qq(<text x="%.1f" y="%d" textLength="%.1f"%s>%s</text>\n), $margin + ($at + length $before) * $width, $y, length($text) * $width, $style && " $style" =~ s/\s+/ /gr, $escaped
            if $text =~ /\S/;
        $at += $whole;
    }
}
print "</g>\n</svg>\n";
