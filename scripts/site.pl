#!/usr/bin/perl
# The pages of docs/ as the sources of a book: site.pl FOLDER, in the repository. The chapters are those of the tables of docs/README.md and of the shelves' own README.md, in
# their order; a page that no table names is an error. What pages link to outside of docs/ becomes a page of the book, too: files by their text, folders by their list.
use strict; use warnings; use utf8; use open qw(:std :encoding(UTF-8));
use File::Basename qw(dirname basename); use File::Path qw(make_path); use File::Copy qw(copy); use File::Spec;

my $book = shift // die "usage: site.pl FOLDER\n";
my %is_tracked = map { $_ => 1 } split /\n/, `git ls-files --cached --others --exclude-standard`;
die "site.pl: git lists no files here\n" unless %is_tracked;
my (%done, @queue, @files);

sub text { my ($path) = @_; local $/; open my $file, '<', $path or die "site.pl: $path: $!\n"; <$file> }
sub put { my ($path, $text) = @_; make_path(dirname("$book/$path")); open my $file, '>', "$book/$path" or die "site.pl: $book/$path: $!\n"; print $file $text }

# A path of the repository without '.' and '..'.
sub plain {
    my @parts;
    for (split m{/}, shift) { next if $_ eq '' || $_ eq '.'; if ($_ eq '..') { pop @parts } else { push @parts, $_ } }
    join '/', @parts;
}
# Where a file or a folder of the repository is in the book.
sub place {
    my ($path) = @_;
    my $page = $path;
    $page =~ s{(^|/)README\.md$}{$1index.md};
    $page = "$path/index.md" if -d $path;
    return $1 if $page =~ m{^docs/(.*)};
    return "files/$page" if $page =~ /\.md$/;
    "files/$page.md";
}
sub linked_from {
    my ($page, $target) = @_;
    File::Spec->abs2rel("/$target", "/" . dirname($page));
}

# The text of a page with its links led to where things are in the book. Code is left alone, as Markdown has it: fenced, indented, between back quotes.
sub led {
    my ($path, $text) = @_;
    my ($is_fenced, @lines) = (0);
    for my $line (split /\n/, $text, -1) {
        if ($line =~ /^\s*```/) { $is_fenced = !$is_fenced }
        elsif (!$is_fenced && $line !~ /^    /) {
            my @pieces = split /(`[^`]*`)/, $line;
            # A link's text may hold code, so only what stands after its bracket is looked at.
            for my $piece (@pieces) { $piece =~ s/\]\(([^()\s]+)\)/"](" . target($path, $1) . ")"/ge unless $piece =~ /^`/ }
            $line = join '', @pieces;
            $line =~ s/^(\s*\[[^\]]+\]: )(\S+)/$1 . target($path, $2)/e;
        }
        push @lines, $line;
    }
    join "\n", @lines;
}
sub target {
    my ($path, $link) = @_;
    return $link if $link =~ m{^(#|[a-z]+:)};
    my ($file, $fragment) = $link =~ /^([^#]*)(#.*)?$/;
    my $to = plain(dirname($path) . "/$file");
    die "site.pl: $path: $link leads nowhere\n" unless -e $to;
    $to .= '/README.md' if -f "$to/README.md";
    # A fixed recording is shown as its page.
    if ($to =~ m{^docs/gallery/(.+)\.(json|trace\.tar)\.gz$}) { return linked_from(place($path), "gallery/$1.html") }
    if (!$done{$to}++) { push @queue, $to }
    linked_from(place($path), place($to)) . ($fragment // '');
}

# A page of the book by the repository's path.
sub page {
    my ($path) = @_;
    if (-d $path) {
        my @all = grep { m{^\Q$path\E/} && -f } sort keys %is_tracked;
        my $rows = join '', map {
            my $name = substr $_, length($path) + 1;
            # A large folder is for its readers in the repository.
            @all <= 20 ? "- [$name](" . target("$path/x", $name) . ")\n" : "- $name\n"
        } @all;
        put(place($path), "# $path\n\nThe files of this folder of the repository.\n\n$rows");
        push @files, $path unless $path =~ m{^docs/};
    } elsif ($path =~ /\.md$/) {
        put(place($path), pictured($path, led($path, text($path))));
        push @files, $path unless $path =~ m{^docs/};
    } elsif ($path =~ m{^docs/} || -B $path) {
        my $to = "$book/" . ($path =~ m{^docs/(.*)} ? $1 : "files/$path");
        make_path(dirname($to));
        copy($path, $to) or die "site.pl: $path: $!\n";
    } else {
        my $text = text($path);
        my $fence = '```'; $fence .= '`' while $text =~ /^\Q$fence\E/m;
        my ($kind) = basename($path) =~ /\.(\w+)$/;
        $kind //= $text =~ /^#!.*\b(sh|bash|perl|python)/ ? $1 : '';
        $text .= "\n" unless $text =~ /\n\z/;
        put(place($path), "# $path\n\n$fence" . ($kind eq 'rs' ? 'rust,ignore' : $kind) . "\n$text$fence\n");
        push @files, $path;
    }
}
# The gallery's pages by their pictures, which the builder makes.
sub pictured {
    my ($path, $text) = @_;
    return $text unless $path eq 'docs/gallery/README.md';
    $text =~ s{\[the page\]\(((?:[^()]+/)?([^()/]+))\.html\)(\.?)}{[the page]($1.html)$3\n\n[<img class="thumbnail" alt="$2" src="$1.png">]($1.html)\n}g;
    $text;
}

# The rows of a page's tables: [title, path] of a page, [title] of a heading among them.
sub rows {
    my ($path) = @_;
    my @rows;
    for (split /\n/, text($path)) {
        if (/^## ([^:\n]+)/) { push @rows, [$1, undef, 1] }
        elsif (/^\| \*\*([^*]+)\*\* \|/) { push @rows, [$1] }
        elsif (/^\| \[([^\]]+)\]\(([^)#]+)\) \| ([^|]*)/) {
            my ($title, $link, $about) = ($1, $2, $3);
            my $to = plain(dirname($path) . "/$link");
            # A number is no title: what it is about stands beside it.
            push @rows, [$title =~ /^\d+$/ ? "$title. " . $about =~ s/\s+$//r : $title, $to];
        }
    }
    @rows;
}

my @summary = ("# Summary\n", "[perftax](index.md)\n");
my %is_chapter = ('docs/README.md' => 1);
sub chapter {
    my ($title, $path, $depth) = @_;
    return if $is_chapter{$path}++;
    $path = "$path/README.md" if -d $path && -f "$path/README.md";
    $is_chapter{$path}++;
    $done{$path}++ or push @queue, $path;
    push @summary, '  ' x $depth . "- [$title](" . place($path) . ")";
    # A shelf's own table.
    if ($path =~ m{^docs/.+/README\.md$}) { chapter($_->[0], $_->[1], $depth + 1) for grep { defined $_->[1] && $_->[1] =~ m{^docs/} } rows($path) }
}
my ($shelf, $heading) = ('');
for my $row (rows('docs/README.md')) {
    my ($title, $path, $is_shelf) = @$row;
    if (defined $path) {
        push @summary, "\n# $heading\n" if defined $heading;
        $heading = undef;
        chapter($title, $path, 0) if $path =~ m{^docs/};
    }
    elsif ($is_shelf) { $shelf = $title; $heading = $title }
    else { $heading = "$shelf: $title" }
}
# The results' map is linked, not tabled.
push @summary, "\n# $heading\n" if defined $heading;
chapter('what was asked, and what came', 'docs/results/README.md', 0);
$done{'docs/README.md'}++; push @queue, 'docs/README.md';
while (defined(my $path = shift @queue)) { page($path) }

my @forgotten = grep { m{^docs/.*\.md$} && !$is_chapter{$_} } sort keys %is_tracked;
die "site.pl: no table of docs/README.md, or of a shelf's README.md, names " . join(', ', @forgotten) . "\n" if @forgotten;
my %shown = map { place($_) => $_ } @files;
my @shown = sort { $shown{$a} cmp $shown{$b} } keys %shown;
put('files/index.md', "# Files of the repository\n\nThose that pages here link to.\n\n" . join('', map { "- [$shown{$_}](" . linked_from('files/index.md', $_) . ")\n" } @shown));
push @summary, "\n# The repository\n", '- [files that pages link to](files/index.md)', map { "  - [$shown{$_}]($_)" } @shown;
put('SUMMARY.md', join("\n", @summary) . "\n");
printf "%d pages of docs, %d of what they link to\n", scalar(grep { /\.md$/ } keys %is_chapter), scalar keys %shown;
