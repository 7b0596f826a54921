// Package child runs programs that die with the program that started them.
package child
