// functions MESSAGES: four goroutines at a time each have so many messages handled, each by a goroutine of its own whose stack has to grow for it. Every fiftieth sleeps 3 ms, every
// seventieth panics out of its function, every third calls itself; and in each a panic is caught. Then one goroutine handles so many one after the other, of which every seventieth panics.
package main

import (
	"os"
	"strconv"
	"sync"
	"time"
)

var seen [4]int

//go:noinline
func handle(at, message int, again bool) int {
	var room [6000]byte
	room[message%len(room)] = byte(message)
	if message%70 == 69 {
		panic("broken off")
	}
	if again {
		return handle(at, 1, false)
	}
	if message%50 == 49 {
		time.Sleep(3 * time.Millisecond)
	}
	caught()
	sum := 0
	for i := 0; i < 20000; i++ {
		sum += i ^ int(room[i%len(room)])
	}
	return sum
}

func caught() {
	defer func() { recover() }()
	panic("caught")
}

func handled(message int) {
	defer func() { recover() }()
	handle(0, message, message%3 == 0)
}

func main() {
	messages, _ := strconv.Atoi(os.Args[1])
	var all sync.WaitGroup
	for at := range seen {
		all.Add(1)
		go func(at int) {
			defer all.Done()
			for message := 0; message < messages; message++ {
				done := make(chan bool)
				go func() {
					defer func() {
						recover()
						done <- true
					}()
					seen[at] += handle(at, message, message%3 == 0)
				}()
				<-done
			}
		}(at)
	}
	all.Wait()
	for message := 0; message < messages; message++ {
		handled(message)
	}
}
